"""What the variables of a rank's frames tell: it gets through its waits, or its loop comes back to where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.doing import HIDDEN
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import Sketch, alarms, first, thread

SYNCHRONIZE = ["synchronize /env/site-packages/torch/cuda/__init__.py:1083", "train loop.py:41", "main loop.py:90"]
EVALUATES = ["synchronize /env/site-packages/torch/cuda/__init__.py:1083", "evaluate loop.py:12", "main loop.py:88"]
ONE, OTHER = ["balance router.py:12", "main loop.py:41"], ["balance router.py:13", "main loop.py:41"]


def with_digests(job: Job, rank: int, variables: Sequence[str] = (), ran: Sequence[str] = ()) -> Job:
    """The same job, of whose rank the looks told these digests."""
    pid = next(one.process.pid for one in job.ranks if one.rank == rank)
    mine = sorted((dump for dump in job.stacks if dump.rank_pid == pid), key=lambda dump: dump.at)
    new = {
        id(dump): dump._replace(variables=variables[at].replace(HIDDEN, "") if variables else "",
                                ran=ran[at] if ran else variables[at] and str(at))
        for at, dump in enumerate(mine)
    }  # fmt: skip
    return replace(job, stacks=tuple(new.get(id(dump), dump) for dump in job.stacks))


def looping(variables: Sequence[str], *looks: Sequence[str], span: float = 7.0) -> Verdict:
    job = Sketch(looks=7, watched=span + 2, span=span, patience=4.0, stood_still=span)
    job.ranks().at(SYNCHRONIZE, state="R", syscall="none").pulse(cores=1.0)
    job.ranks(3).at(*looks, state="R", syscall="none")
    return diagnose(with_digests(job.job(), 3, variables=variables))


def test_a_loop_that_comes_back_to_the_same_lines_with_the_same_variables_is_told_soon() -> None:
    found = first(looping(["a"] * 7, ONE, OTHER, ONE, ONE, OTHER, ONE, ONE))
    assert (found.kind, found.ranks, found.certainty) == ("rank_stuck_in_code", (3,), "likely")
    assert "comes back to the same lines with the same variables" in found.summary
    unread = looping(["a", "a", "a", "", "a", "a", "a"], ONE, OTHER, ONE, ONE, OTHER, ONE, OTHER)
    assert first(unread).kind == "rank_stuck_in_code", "of a busy interpreter not each look can read them"


@pytest.mark.parametrize(
    ("top", "variables", "soon"), [([], "a", True), (["dgemm_ /usr/lib/libblas.so:0"], HIDDEN, False)]
)
def test_at_one_line_a_look_at_native_frames_must_have_met_the_interpreter(
    top: list[str], variables: str, soon: bool
) -> None:
    job = Sketch(looks=7, watched=9.0, span=7.0, patience=4.0, stood_still=7.0)
    job.ranks().at(SYNCHRONIZE, state="R", syscall="none").pulse(cores=1.0)
    job.ranks(3).at(ONE, state="R", syscall="none")
    made = with_digests(job.job(), 3, variables=["a"] * 7)
    last = next(dump for dump in reversed(made.stacks) if dump.rank_pid == 1003)
    told = variables.replace(HIDDEN, "")
    native = last._replace(method="native", at=last.at - 0.5, threads=[thread([*top, *ONE], {})], variables=told)
    verdict = diagnose(replace(made, stacks=(*made.stacks, native), stack_nodes=(*made.stack_nodes, "node2")))
    assert (first(verdict).kind == "rank_stuck_in_code") is soon
    assert first(verdict).ranks == (3,)


@pytest.mark.parametrize(
    ("variables", "looks"),
    [
        ([*"abcdefg"], (ONE, OTHER, ONE, ONE, OTHER, ONE, OTHER)),
        ([*"aaaabbc"], (ONE, ONE, ONE, OTHER, ONE, OTHER, ONE)),
        ([*"aaaaaaa"], (ONE, ONE, ONE, ONE, ONE, ONE, ONE)),
        (["a", "a", "a", HIDDEN, "a", "a", "a"], (ONE, OTHER, ONE, ONE, OTHER, ONE, OTHER)),
        ([*"aaaaaaa"], (ONE, OTHER, ONE, ["step router.py:30", "main loop.py:41"], ONE, OTHER, ONE)),
    ],
    ids=["counts", "calls long ones in turn", "in one call", "hides something", "calls others"],
)
def test_work_that_gets_on_or_may_is_given_its_time(variables: list[str], looks: tuple[list[str], ...]) -> None:
    assert alarms(looping(variables, *looks)) == []
    assert first(looping(variables, *looks, span=25.0)).certainty == "possible"


def evaluating(ran: Sequence[str]) -> Verdict:
    job = Sketch(looks=len(ran), watched=14.0, span=12.0, patience=10.0, stood_still=12.0)
    job.ranks().at(SYNCHRONIZE, state="R", syscall="none").pulse(cores=1.0)
    job.ranks(0).at(*[EVALUATES] * len(ran), state="R", syscall="none")
    return diagnose(with_digests(job.job(), 0, ran=ran))


def test_who_gets_through_its_waits_for_its_gpu_works_and_the_others_wait_for_it() -> None:
    verdict = evaluating(["a", "b", "b", "c", "d"])
    assert alarms(verdict) == []
    assert (first(verdict).kind, first(verdict).ranks) == ("waiting", (0,))


@pytest.mark.parametrize(
    ("switches", "kind"), [(12.0, "waiting"), (3.0, "collective_mismatch"), (900.0, "collective_mismatch")]
)
def test_who_spins_and_sleeps_by_turns_comes_back_from_each_wait_for_its_gpu(switches: float, kind: str) -> None:
    """It waits for Python's lock in between. Looks of ours make few switches, and a wait that polls makes hundreds."""
    job = Sketch(looks=5, watched=14.0, span=12.0, patience=10.0, stood_still=12.0)
    job.ranks().at(SYNCHRONIZE, state="R", syscall="none").pulse(cores=1.0)
    job.ranks(0).at(EVALUATES, state="R", syscall="none").pulse(cores=1.0, switches=switches)
    found = first(diagnose(job.job()))
    assert (found.kind, found.ranks) == (kind, (0,))


def test_who_is_in_one_wait_for_its_gpu_waits_with_all_others_and_is_named_where_it_evaluates_alone() -> None:
    for ran in (["a", "a", "a", "a"], ["a", "b", "b", "b", "b", "b"]):  # the second came there since
        found = first(evaluating(ran))
        assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (0,), "possible")
