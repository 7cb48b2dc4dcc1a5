"""Flight recorders, NCCL RAS and NCCL's own log, put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from collectors.samples.collectives import Collective, RasCommunicator, RasRank, RasReport, RecorderDump
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives.recorder import match
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.series import Timed
from tests.support.jobs import (
    ALL_REDUCE,
    COMPUTING,
    NOW,
    READING,
    Sketch,
    after,
    alarms,
    c10d,
    collective,
    first,
    kinds,
)

WHOLE = {"0": [0, 1, 2, 3]}
PAIRS = {"0": [0, 1, 2, 3], "tp0": [0, 1], "tp1": [2, 3]}


def dump(rank: int, *entries: Collective, members: dict[str, list[int]] | None = None) -> RecorderDump:
    """A rank's dump, taken a minute ago."""
    done = [entry.seq for entry in entries if entry.retired and not entry.p2p]
    seqs = [entry.seq for entry in entries if not entry.p2p]
    status: dict[str, tuple[int | None, int | None]] = {"0": (max(seqs, default=-1), max(done, default=-1))}
    groups = WHOLE if members is None else members
    return RecorderDump(rank, f"/tmp/fr_{rank}", NOW - 60, groups, status, list(entries))


def history(rank: int, until: int, **last: Any) -> list[Collective]:
    """Finished collectives up to ``until``, and, with ``last``, an open one after them."""
    entries = [collective(rank, seq) for seq in range(1, until + 1)]
    if last:
        entries.append(collective(rank, until + 1, done=False)._replace(**last))
    return entries


def waiting(*ranks: int, **last: Any) -> list[RecorderDump]:
    """Ranks that wait in the seventh collective."""
    return [dump(rank, *history(rank, 6, **{"op": "all_reduce", **last})) for rank in ranks]


def gloo(rank: int, *, waits: bool) -> RecorderDump:
    """Gloo never says completed and configures no groups."""
    entries = [
        entry._replace(state="scheduled") for entry in history(rank, 6, **({"op": "all_reduce"} if waits else {}))
    ]
    return dump(rank, *entries, members={})


def in_pair(rank: int, op: str) -> RecorderDump:
    """Six collectives of a tensor parallel pair, and a seventh that only the second pair has finished."""
    own: dict[str, Any] = {"group": f"tp{rank // 2}", "group_description": "tp"}
    entries = [collective(rank, seq, **own) for seq in range(1, 7)]
    return dump(rank, *entries, collective(rank, 7, op, done=rank > 1, **own), members=PAIRS)


def alone_in_its_group(rank: int) -> RecorderDump:
    """By gloo, which names no members: the rank waits in a group in which no other rank was seen."""
    entry = collective(rank, 1, done=False, group="1", group_description="", state="scheduled")
    return gloo(rank, waits=False)._replace(collectives=[*gloo(rank, waits=False).collectives, entry])


DUMPS: dict[str, tuple[Sequence[RecorderDump], str, tuple[int, ...], str]] = {
    "one did not join": ([*waiting(0, 1, 2), dump(3, *history(3, 6))], "collective_mismatch", (3,), "all_reduce #7"),
    "another size": (
        [*waiting(0, 1, 3), *waiting(2, input_sizes=[[8]])], "collective_size_mismatch", (2,), "#7 of 8 Float",
    ),
    "no dump of one": (waiting(0, 1, 3), "collective_mismatch", (2,), "rank 2 has not launched"),
    "gloo": ([gloo(rank, waits=rank != 1) for rank in range(4)], "collective_mismatch", (1,), "all_reduce #7"),
    "gloo, one alone in a group": (
        [*(gloo(rank, waits=True) for rank in (0, 2, 3)), alone_in_its_group(1)], "collective_mismatch", (1,),
        "rank 1 has not launched all_reduce #7",
    ),
    "gloo, one in a group waits for another rank": (
        [gloo(0, waits=True), alone_in_its_group(1), gloo(2, waits=False), gloo(3, waits=True)],
        "collective_mismatch", (2,), "rank 2 has not launched all_reduce #7",
    ),
    "all joined and none completed": (waiting(0, 1, 2, 3), "collective_stalled", (0, 1, 2, 3), "all members"),
    "some have finished it": (
        [*(dump(rank, *history(rank, 7)) for rank in range(3)), *waiting(3)], "collective_stalled", (3,),
        "which ranks 0-2 completed: the GPU stands still",
    ),
    "of two that differ nobody knows the wrong one": (
        [in_pair(0, "all_reduce"), in_pair(1, "all_gather")], "collective_mismatch", (0, 1), "rank 1 all_gather #7",
    ),
}  # fmt: skip


def recorded(*dumps: RecorderDump) -> Sketch:
    job = after()
    job.recorders.extend(dumps)
    return job


@pytest.mark.parametrize("case", DUMPS)
def test_what_dumps_alone_say(case: str) -> None:
    dumps, kind, ranks, words = DUMPS[case]
    found = first(recorded(*dumps).verdict())
    assert (found.kind, found.ranks) == (kind, ranks)
    assert words in found.summary


def test_two_sides_of_a_split_carry_one_name() -> None:
    """split_group: ranks 0 and 1 wait in theirs for nobody of the other half."""
    halves = {rank: {**WHOLE, "half": [0, 1] if rank < 2 else [2, 3]} for rank in range(4)}
    entries = {r: [collective(r, seq, group="half") for seq in range(1, 9 if r < 2 else 4)] for r in range(4)}
    entries[0].append(collective(0, 9, group="half", done=False))
    assert match(dump(r, *history(r, 6), *entries[r], members=halves[r]) for r in range(4)).culprits == (1,)


def test_a_group_that_was_not_joined_but_a_later_one_was() -> None:
    """Rank 2 skips the pair's collective and goes on; both sides then wait for each other, and its neighbours tell."""

    def own(rank: int, *, skips: bool = False) -> RecorderDump:
        pair = collective(rank, 1, group=f"tp{rank // 2}", group_description="tp", done=rank < 2)
        whole = collective(rank, 1, done=False)
        entries = [whole] if skips else [pair] if rank == 3 else [pair, whole]
        return dump(rank, *entries, members=PAIRS)._replace(status={})

    assert match([own(0), own(1), own(2, skips=True), own(3)]).culprits == (2,)
    alone = match([own(2, skips=True), own(3)])
    assert (alone.culprits, alone.cycle) == ((), (2, 3)), "without their neighbours nothing tells which is right"


def test_who_failed_by_itself_wrote_no_dump_for_that() -> None:
    """That it did not join says nothing more, and is no hang."""
    job = recorded(*waiting(0, 1, 3))
    job.says("python.exception", 2, ago=70.0, type="KeyError", message="'lr'", signature="user", consequence=False)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("crashed", "rank_crashed", (2,))
    assert "collective_mismatch" not in kinds(verdict)


def test_open_collectives_of_a_job_that_moves_are_none() -> None:
    job = Sketch(patience=60.0)
    fresh = [collective(r, 7, done=False, created=NOW - 61) for r in range(3)]
    job.recorders.extend(dump(r, *history(r, 6), *fresh[r : r + 1]) for r in range(4))
    assert alarms(job.verdict()) == []


def test_ranks_that_wait_are_counted_over_all_sources() -> None:
    """Dumps of two ranks alone, and stacks of all eight: seven wait for rank 3."""
    job = Sketch(world=8, stood_still=120.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(COMPUTING, state="R").pulse(cores=1.0)
    members = {"0": list(range(8))}
    job.recorders.append(dump(0, *history(0, 6, op="all_reduce"), members=members))
    job.recorders.append(dump(3, *history(3, 6), members=members))
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (3,)
    assert "7 others wait" in found.summary


def test_who_waits_in_a_receive_that_its_recorder_does_not_keep_is_not_to_blame() -> None:
    """Gloo's recorder keeps no receives: rank 2 waits for 3 and 1 for 0 in an all_reduce, 0 is in a receive from 2."""
    job = Sketch(stood_still=120.0)
    for rank, seq in ((0, 4), (1, 5), (2, 9), (3, 8)):
        group = str(1 + rank // 2 * 2)
        entry = collective(rank, seq, group=group, group_description="", done=rank in (0, 3))
        job.recorders.append(dump(rank, entry, members={group: [rank // 2 * 2, rank // 2 * 2 + 1]})._replace(status={}))
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(c10d("recv", "take pipe.py:7"), arguments={"src": "2"})
    job.ranks(3).at(COMPUTING, state="R").pulse(cores=1.0)
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (3,)
    assert "rank 3 on node2 has not launched all_reduce #9 of group 3" in found.summary
    job.ranks(0).at(COMPUTING, state="R").pulse(cores=1.0)
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (0, 3)


# --- NCCL RAS ----------------------------------------------------------------------------------------------------


def answers(*counts: dict[str, int], pid: int = 1000) -> list[Timed[RasReport]]:
    """Three answers without motion about one communicator, by what each rank launched."""
    ranks = [RasRank(r, "node1" if r < 2 else "node2", pid + r, own) for r, own in enumerate(counts)]
    report = RasReport(NOW, [RasCommunicator("27a079b8", len(counts), ranks, ok=True)])
    return [Timed(NOW - ago, report) for ago in (30, 20, 10)]


USUAL = {"AllReduce": 10}
RAS: dict[str, tuple[list[Timed[RasReport]], list[tuple[int, ...]]]] = {
    "one launched less": (answers(USUAL, USUAL, {"AllReduce": 9}, USUAL), [(2,)]),
    "even": (answers(USUAL, USUAL, USUAL, USUAL), []),
    "two answers only": (answers(USUAL, USUAL, {"AllReduce": 9}, USUAL)[1:], []),
    "they move": (
        [*answers(USUAL, USUAL, {"AllReduce": 9}, USUAL)[:2], answers(USUAL, USUAL, USUAL, {"AllReduce": 11})[2]], [],
    ),
    "the root of broadcasts is ahead": (
        answers({"Broadcast": 20}, {"Broadcast": 7}, {"Broadcast": 7}, {"Broadcast": 7}), [],
    ),
    "one is behind in broadcasts": (
        answers({"Broadcast": 8}, {"Broadcast": 8}, {"Broadcast": 7}, {"Broadcast": 8}), [(2,)],
    ),
    "another job's": (answers(USUAL, USUAL, {"AllReduce": 9}, USUAL, pid=90_000), []),
}  # fmt: skip


def spinning() -> Sketch:
    job = Sketch()
    job.ranks().at(["spin x.py:1"])
    return job


@pytest.mark.parametrize("case", RAS)
def test_counts_of_ras(case: str) -> None:
    job = spinning()
    job.ras.extend(RAS[case][0])
    assert [one.ranks for one in job.verdict().findings if one.kind == "collective_mismatch"] == RAS[case][1]
    assert bool(waits_of(job.job())) == bool(RAS[case][1])


def test_a_dump_of_the_process_that_had_the_rank_before_is_left_out() -> None:
    job = spinning()
    job.recorders.extend(one._replace(at=NOW - 5000) for one in waiting(0, 1, 3))
    assert waits_of(job.job()) == ()


def test_an_ok_of_ras_is_not_believed_while_ranks_wait() -> None:
    job = Sketch(stood_still=90.0, watched=90.0, span=30.0)
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING, syscall="read")
    job.ras.extend(RAS["even"][0])
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("hung", (3,))


# --- NCCL's log --------------------------------------------------------------------------------------------------


def launched(*counts: int, op: str = "AllReduce", odd_size: int | None = None) -> list[CommProgress]:
    """The last COLL line of each rank."""
    return [
        CommProgress("0xfeed", rank, len(counts), rank, "node1", 1000 + rank, op, 65 if rank == odd_size else 64,
                     "fp32", number, number, None, f"rank{rank}.log", 9000 + rank)
        for rank, number in enumerate(counts)
    ]  # fmt: skip


LOGS: dict[str, tuple[list[CommProgress], tuple[str, ...]]] = {
    "one launched less": (launched(9, 9, 9, 8), ("collective_mismatch", "AllReduce #9 of group 0xfeed; 3 others")),
    "another size": (launched(9, 9, 9, 9, odd_size=2), ("collective_size_mismatch", "rank 2 AllReduce #9 of 65")),
    "even": (launched(9, 9, 9, 9), ()),
    "a job in motion": (launched(6, 7, 8, 9), ()),
    "the root of a broadcast": (launched(50, 42, 42, 42, op="Broadcast"), ()),
    "one late in a broadcast": (
        launched(42, 42, 41, 42, op="Broadcast"),
        ("collective_mismatch", "has not launched"),
    ),
}


@pytest.mark.parametrize("case", LOGS)
def test_collectives_in_the_log_of_nccl(case: str) -> None:
    progress, told = LOGS[case]
    job = after(len(progress))
    job.progress.extend(progress)
    if not told:
        assert alarms(job.verdict()) == []
        return
    found = first(job.verdict())
    assert found.kind == told[0]
    assert all(words in found.summary for words in told[1:])


def test_lines_of_a_job_that_moves_are_no_mismatch() -> None:
    live = Sketch()
    live.ranks().at(ALL_REDUCE).pulse(switches=30, cores=0.5)
    live.progress.extend(LOGS["one launched less"][0])
    assert alarms(live.verdict()) == []


def at_their_gpus(*counts: int) -> Sketch:
    """A live job in which every rank waits for its GPU at one line, and NCCL's log counts these collectives."""
    job = Sketch(stood_still=90.0, watched=90.0, span=30.0)
    job.ranks().at(["synchronize torch/cuda/streams.py:100", "train_step loop.py:38", "main loop.py:90"]).pulse(
        cores=1.0
    )
    job.progress.extend(launched(*counts))
    return job


def test_a_rank_that_ran_ahead_left_out_what_the_others_are_in() -> None:
    found = first(at_their_gpus(9, 9, 11, 9).verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (2,))
    assert "rank 2 AllReduce #11" in found.summary


@pytest.mark.parametrize("counts", [(9, 9, 9, 9), (9, 10, 11, 12)], ids=["even", "spread"])
def test_no_rank_ran_ahead_where_none_is_alone(counts: tuple[int, ...]) -> None:
    assert first(at_their_gpus(*counts).verdict()).kind == "collective_stalled"
