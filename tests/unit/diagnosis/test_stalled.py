"""Nothing moves: ranks that wait at different operations, circles, stuck sub-groups, jobs in which nobody is odd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    COMPUTING,
    LOCKED,
    MOVING,
    NOW,
    READING,
    Sketch,
    alarms,
    c10d,
    first,
    kinds,
)

_TORCH = "/venv/lib/python3.11/point-packages/torch"
_FUNCTIONAL = "/venv/lib/python3.11/site-packages/torch/distributed/_functional_collectives.py"
ITEM = [f"synchronize {_TORCH}/cuda/__init__.py:900", "step loop.py:30", "main loop.py:9"]
OWN, ALL = {"group_given": "yes"}, {"group_given": "no"}
SWAP = "swap halo.py:9"


class At(NamedTuple):
    """Where some ranks are."""

    ranks: Sequence[int]
    stack: list[str]
    arguments: Mapping[str, str] = {}


CASES: dict[str, tuple[int, list[At], str, tuple[int, ...], str]] = {
    "two against two": (
        4, [At([0, 1], ALL_REDUCE), At([2, 3], c10d("broadcast", "sync sync.py:3"))], "collective_mismatch",
        (0, 1, 2, 3), "broadcast",
    ),
    "a sub-group is nearer to the end of the wait than the crowd, which waits for it": (
        8,
        [At([0, 1, 4, 5, 6, 7], ALL_REDUCE, ALL), At([2], c10d("all_gather", "gather_heads tp.py:11"), OWN),
         At([3], c10d("reduce_scatter", "split_heads tp.py:25"), OWN)], "collective_mismatch", (2, 3), "all_gather",
    ),
    "one that went on to a barrier of all, and not the one in a group of its own": (
        4,
        [At([0, 2], [f"wait_tensor {_FUNCTIONAL}:145", "step loop.py:26"]),
         At([3], c10d("all_gather", "step loop.py:26"), OWN), At([1], c10d("barrier", "step loop.py:31"), ALL)],
        "collective_mismatch", (1,), "barrier",
    ),
    "a pair stuck in one operation": (
        8,
        [At([0, 1, 4, 5, 6, 7], BACKWARD), At([2, 3], c10d("all_reduce", "join_heads tp.py:11"), OWN)],
        "collective_stalled", (2, 3), "6 others wait for them",
    ),
    "all at the same operation": (
        4, [At(range(4), ALL_REDUCE)], "collective_stalled", (0, 1, 2, 3), "no rank is odd",
    ),
    "a chain through two groups, which ends at the rank that does not wait": (
        64,
        [At(range(64), BACKWARD), At([20], c10d("all_reduce", "reduce_tensor mappings.py:30"), OWN), At([21], LOCKED)],
        "rank_stuck_in_code", (21,), "63 others",
    ),
    "a ring of receives": (
        4, [At([rank], c10d("recv", "pass_on ring.py:9"), {"src": str((rank - 1) % 4)}) for rank in range(4)],
        "p2p_deadlock", (0, 1, 2, 3), "rank 0 in recv with rank 3",
    ),
}  # fmt: skip


def job_at(world: int, places: Sequence[At]) -> Sketch:
    job = Sketch(world=world)
    for place in places:
        job.ranks(*place.ranks).at(place.stack, arguments=place.arguments)
    return job


@pytest.mark.parametrize("case", CASES)
def test_what_everybody_waits_in(case: str) -> None:
    world, places, kind, ranks, words = CASES[case]
    found = first(job_at(world, places).verdict())
    assert (found.kind, found.ranks) == (kind, ranks)
    assert words in found.summary


@pytest.mark.parametrize(
    ("row", "told"),
    [({"utilization": 100, "power": 110.0}, ["collective_stalled"]), ({"utilization": 99, "power": 620.0}, [])],
)
def test_spinning_counts_only_with_spinning_gpus(row: dict[str, float], told: list[str]) -> None:
    """NCCL keeps the CPU busy: without the GPUs' word nobody can tell a stall from a fast job."""
    job = Sketch()
    job.ranks().at(ITEM, state="R").pulse(cores=1.0)
    assert alarms(job.verdict()) == []
    assert alarms(job.gpus(*[[row] * 5] * 4).verdict()) == told


@pytest.mark.parametrize(
    "places",
    [
        [At(range(4), c10d("batch_isend_irecv", SWAP))],
        [At([0, 1], BACKWARD), At([2], c10d("send", SWAP), {"dst": "3"}), At([3], c10d("recv", SWAP), {"src": "2"})],
    ],
)
def test_sends_that_meet_their_receives_are_no_circle(places: list[At]) -> None:
    assert "p2p_deadlock" not in kinds(job_at(4, places).verdict())


# --- since when it is due ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [COMPUTING, READING])
def test_where_all_are_in_their_own_code_nobody_holds_up_another(stack: list[str]) -> None:
    job = Sketch()
    job.ranks().at(stack)
    verdict = job.verdict()
    assert (verdict.outcome, alarms(verdict)) == ("unknown", []), "nothing proves that it moves"
    job.motion = MOVING
    assert job.verdict().outcome == "healthy"


@pytest.mark.parametrize(("still", "told"), [(30.0, []), (70.0, ["job_stalled"])])
def test_ranks_that_all_sleep_in_their_own_code_have_the_time_of_a_long_step(still: float, told: list[str]) -> None:
    """Between micro-batches, or until a service answers: each wakes by itself."""
    job = Sketch(stood_still=still)
    job.ranks().at(["accumulate train.py:60", "main train.py:9"], syscall="clock_nanosleep").pulse(switches=0.5)
    assert alarms(job.gpus(*[[{"utilization": 0, "power": 75.0}] * 4] * 4).verdict()) == told


def test_what_all_wait_in_is_not_stalled_before_the_last_of_them_has_been_there_for_as_long() -> None:
    """It slept between two attempts to read, and has just come: the others waited for it, and wait no longer."""
    retry = ["retry shards.py:46", "main train.py:9"]
    job = Sketch(looks=8, span=14.0, patience=10.0, watched=30.0, stood_still=15.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(*[retry] * 3, *[ALL_REDUCE] * 5)
    assert alarms(job.verdict()) == [], "eight seconds are fewer than ten"
    job.patience = 5.0
    assert kinds(job.verdict()) == ["collective_stalled"]


def test_the_only_rank_of_a_job_is_named_and_nobody_is_told_how_to_name_it() -> None:
    job = Sketch(world=1, nodes=1, stood_still=70.0)
    job.ranks().at(["fill_buffer store.py:60", "main train.py:9"], state="S", syscall="recvfrom")
    job.ranks().pulse(cores=0.0, switches=0.5)
    (found,) = (finding for finding in job.verdict().findings if finding.kind == "job_stalled")
    assert (found.ranks, found.nodes) == ((0,), ("node1",))
    assert "would name the rank" not in found.advice


def test_the_last_rank_does_not_end_and_nobody_is_accused() -> None:
    job = Sketch(stood_still=60.0)
    job.ranks(0, 1, 3).absent()
    job.ranks(2).at(["_shutdown /usr/lib/python3.11/threading.py:1583"])
    verdict = job.verdict()
    assert (verdict.outcome, alarms(verdict)) == ("unknown", [])
    assert "nothing has moved for 60 s: rank 2 has left the program" in verdict.summary


# --- a part of the job goes on -----------------------------------------------------------------------------------

STEPS = JobMotion(True, "2 ranks, steps 1,204 to 1,219 in 4 s", 1219, NOW - 0.2)
STEP = ["mix model.py:31", "train_step loop.py:38", "main loop.py:90"]
REDUCE = c10d("all_reduce", "sync dp.py:12", "main loop.py:90")


def replicas() -> Sketch:
    """Ranks 2 and 3 go through all_reduce and compute; 0 and 1 are in the same all_reduce of a group of theirs."""
    job = Sketch(motion=STEPS, stood_still=0.3, span=20.0, watched=20.0, patience=10.0)
    job.ranks(0, 1).at(REDUCE, arguments=OWN)
    job.ranks(2, 3).at(REDUCE, STEP, arguments=OWN).pulse(cores=0.4, switches=40.0)
    return job


@pytest.mark.parametrize("switches", [4.0, 40.0])
def test_ranks_whose_waits_end_and_begin_again_stand_nowhere(switches: float) -> None:
    job = replicas()
    job.ranks(0, 1).pulse(cores=0.01, switches=switches)
    assert job.verdict().outcome == "healthy"


def test_ranks_that_wait_for_one_that_evaluates_in_a_loop_that_counts_wait_for_it() -> None:
    """Its loop logs batches: nobody waits for others than it."""
    job = replicas()
    job.ranks(0, 1, 3).at(REDUCE, arguments=OWN).pulse()
    job.ranks(2).at(
        ["evaluate loop.py:60", "main loop.py:95"], ["forward m.py:6", "evaluate loop.py:61", "main loop.py:95"]
    )
    job.ranks(2).pulse(cores=0.9, switches=40.0)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("waiting", (2,)), verdict.summary


# --- a rank that nobody looked into -------------------------------------------------------------------------------


def test_a_rank_that_nobody_looked_into_and_that_saves_is_no_stall() -> None:
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(BARRIER)
    job.ranks(3).unread("timeout: py-spy did not come back")
    job.ranks(3).pulse(written=5e6, switches=20)
    assert "job_stalled" not in kinds(job.verdict())
