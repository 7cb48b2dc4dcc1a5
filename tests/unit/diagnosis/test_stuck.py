"""Ranks that hold the others up: named with their frame, however few wait, and never while they merely take long."""

from __future__ import annotations

import pytest

from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    COMPUTING,
    LOCKED,
    MOVING,
    READING,
    Sketch,
    alarms,
    c10d,
    first,
)

_TORCH = "/venv/lib/python3.11/point-packages/torch"


def held_up_by(
    culprit: int, *stacks: list[str], world: int = 4, waiters: list[str] = ALL_REDUCE, **at: object
) -> Sketch:
    """A job in which all but one wait."""
    job = Sketch(world=world)
    job.ranks().at(waiters)
    job.ranks(culprit).at(*stacks, **at)  # type: ignore[arg-type]
    return job


def test_a_chain_through_two_groups_ends_at_the_rank_that_does_not_wait() -> None:
    """62 wait in the data-parallel group for the pair, one of the pair waits in its own group for the other."""
    job = Sketch(world=64, nodes=8)
    job.ranks().at(BACKWARD)
    job.ranks(20).at(c10d("all_reduce", "reduce_from_tensor_region mappings.py:30"), arguments={"group_given": "yes"})
    job.ranks(21).at(LOCKED)
    found = first(job.verdict())
    assert found.ranks == (21,)
    assert "63 others" in found.summary


@pytest.mark.parametrize("stack", [COMPUTING, READING, ["nap train.py:5", "main train.py:9"]])
def test_nobody_waits(stack: list[str]) -> None:
    """A job whose step takes long: all are in their own code, and no rank holds up another."""
    job = Sketch()
    job.ranks().at(stack)
    verdict = job.verdict()
    assert alarms(verdict) == []
    assert verdict.outcome == "unknown", "nothing proves that it moves"
    assert "nothing was seen to move and nothing is known to be wrong" in verdict.summary
    job.motion = MOVING
    assert job.verdict().outcome == "healthy"
    assert "steps 1,204 to 1,219" in job.verdict().summary


# --- where a stuck rank stays ----------------------------------------------------------------------------------------


def test_processes_that_may_not_have_been_looked_at_yet_are_not_missed() -> None:
    """Nor is the rank accused: they may compute for it."""
    from_a_process = [
        "get /usr/lib/python3.11/multiprocessing/queues.py:103",
        "take_next results.py:20",
        "main run.py:9",
    ]
    verdict = held_up_by(2, from_a_process, syscall="read", waiting_on="pipe").verdict()
    assert alarms(verdict) == []
    assert (first(verdict).kind, first(verdict).ranks) == ("waiting", (2,))
