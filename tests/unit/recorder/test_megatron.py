"""Dumps of tensor × pipeline × data parallel jobs with one fault: the right rank is named, or nothing is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import assume, example, given
from hypothesis import strategies as st

from collectors.formats import flight_recorder
from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.recorder import Matched, match
from hangtop.diagnosis.finding import Finding
from tests.support.jobs import after
from tests.support.megatron import SYNC, Layout, Op, Run, programs
from tests.support.recorder_dumps import Style, dumps_of

KINDS = {"collective_mismatch", "collective_size_mismatch", "p2p_deadlock"}
layouts = st.builds(
    Layout,
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 4]),
    data=st.sampled_from([1, 2]),
    microbatches=st.sampled_from([2, 4]),
    steps=st.integers(1, 3),
    overlap=st.booleans(),
    syncs=st.booleans(),
).filter(lambda layout: 1 < layout.world <= 16)
styles = st.builds(
    Style, version=st.sampled_from(["2.4", "2.10"]), timing=st.booleans(), kept=st.sampled_from([60, 2000])
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, where, and whom a right answer names. ``lost`` are ranks whose dumps are missing."""

    kind: Literal["stuck", "absent", "skip", "other", "size", "circle", "gpu", "lost"]
    rank: int
    place: int
    """Place in the rank's program, modulo its length."""

    def run(self, layout: Layout, *, ahead: int = 64) -> tuple[Run, frozenset[int], frozenset[int]]:
        """The job that stands still; ranks that a right answer names; ranks that leave no dump."""
        program = programs(layout)
        own = program[self.rank]
        run = Run(layout, program, ahead=ahead)
        lost: frozenset[int] = frozenset()
        right = frozenset({self.rank})
        collectives = [
            i for i, op in enumerate(own) if op.what == "collective" and (op.elements or self.kind != "size")
        ]
        place = collectives[self.place % len(collectives)]
        if self.kind in ("stuck", "absent", "lost"):
            run.stuck[self.rank] = self.place % len(own)
            if self.kind == "absent":
                lost = right
            elif self.kind == "lost":
                lost = frozenset({(self.rank + 1 + self.place) % layout.world}) - right
        elif self.kind == "skip":
            del own[place]
        elif self.kind == "other":
            own[place] = own[place]._replace(name="all_gather")
        elif self.kind == "size":
            own[place] = own[place]._replace(elements=own[place].elements + 7)
        elif self.kind == "gpu":
            run.hung_gpus.add(self.rank)
            right = frozenset()
        elif self.kind == "circle":
            right = self._make_circle(layout, program)
        run.go()
        return run, right, lost

    def _make_circle(self, layout: Layout, program: dict[int, list[Op]]) -> frozenset[int]:
        """Two stages that both receive before they send, outside a batch."""
        t, d, _ = layout.place(self.rank)
        low = self.place % max(1, layout.pipeline - 1)
        a, b = layout.rank(t, d, low), layout.rank(t, d, min(low + 1, layout.pipeline - 1))
        group = layout.groups()["pp"].get(a)
        if group is None:
            return frozenset()
        for rank, peer in ((a, b), (b, a)):
            ends = [i for i, op in enumerate(program[rank]) if op.name == "all_reduce" and op.elements == 1]
            place = (ends[self.place % len(ends)] if ends else len(program[rank]) - 1) + 1
            half = Op("pair", group, elements=64, batched=False)
            program[rank][place:place] = [
                half._replace(halves=(("recv", peer),)), SYNC, half._replace(halves=(("send", peer),)),
            ]  # fmt: skip
        return frozenset({a, b})


def read(run: Run, style: Style, lost: frozenset[int] = frozenset()) -> list[RecorderDump]:
    """The dumps, written and read again."""
    return [flight_recorder.read(data, f"/tmp/fr_{rank}", rank) for rank, data in dumps_of(run, style, lost).items()]


def said(dumps: list[RecorderDump], world: int) -> list[Finding]:
    """Findings that name ranks of a job whose dumps these are."""
    job = after(world)
    job.recorders.extend(dumps)
    return [finding for finding in job.verdict().findings if finding.kind in KINDS]


@example(
    Layout(tensor=1, pipeline=4, data=1, microbatches=2, layers=2, steps=1, overlap=False, syncs=False),
    Style(version="2.4", kept=20), "skip", 0, 1, 1,
)  # fmt: skip
@given(
    layouts,
    styles,
    st.sampled_from(["stuck", "absent", "skip", "other", "size", "circle", "gpu", "lost"]),
    st.integers(0, 15),
    st.integers(0, 300),
    st.sampled_from([1, 8, 64]),
)
def test_the_named_ranks_are_right(layout: Layout, style: Style, kind: str, rank: int, place: int, ahead: int) -> None:
    assume(kind != "circle" or layout.pipeline > 1)
    fault = Fault(kind, rank % layout.world, place)  # type: ignore[arg-type]
    run, right, lost = fault.run(layout, ahead=ahead)
    assume(run.hung)
    found = said(read(run, style, lost), layout.world)
    if found and kind in ("skip", "other", "size"):
        # two ranks that differ may both be named, where nothing tells which of them is right
        assert right <= set(found[0].ranks)
        assert set(found[0].ranks) == right or found[0].weight <= 0.75
    else:
        assert all(set(finding.ranks) == right for finding in found[:1])


@given(layouts, st.integers(0, 15), st.integers(0, 300), st.booleans())
def test_a_rank_that_stops_is_found_by_whole_dumps(layout: Layout, rank: int, place: int, absent: bool) -> None:
    """As long as somebody came to wait for it."""
    fault = Fault("absent" if absent else "stuck", rank % layout.world, place)
    run, right, lost = fault.run(layout)
    dumps = read(run, Style(), lost)
    idle = {d.rank for d in dumps if all(e.retired for e in d.collectives if e.op == "coalesced" or not e.p2p)} - right
    assume(run.hung and not idle)
    assert [set(finding.ranks) for finding in said(dumps, layout.world)] == [right]


@given(layouts, styles)
def test_a_job_that_came_to_its_end_is_well(layout: Layout, style: Style) -> None:
    run, _, _ = Fault("stuck", 0, 0).run(layout)
    run.stuck.clear()
    run.go()
    assert not run.hung
    assert said(read(run, style), layout.world) == []


def matched(layout: Layout, fault: Fault, **style: object) -> Matched:
    """The dumps of a fault, put side by side."""
    run, _, lost = fault.run(layout)
    return match(read(run, Style(**style), lost))  # type: ignore[arg-type]


def test_a_chain_is_followed_to_the_rank_that_left_no_dump() -> None:
    """0 waits for 1, 1 for 2, 2 for 3, and 3 is absent."""
    found = matched(Layout(1, 4, microbatches=1), Fault("absent", 3, 3))
    assert (found.culprits, found.undumped) == ((), (3,))
    assert {edge.waiter: edge.for_ranks for edge in found.edges} == {0: (1,), 1: (2,), 2: (3,)}
    assert [edge.waiter for edge in found.edges if not edge.certain] == [2]
