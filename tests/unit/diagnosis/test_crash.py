"""After a failure: who failed first, who fell over afterwards, and who was only told to end."""

from __future__ import annotations

import pytest

from collectors.samples.host import Interface
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    COMPUTING,
    MOVING,
    NOW,
    Sketch,
    alarms,
    first,
    kinds,
)


def victim(job: Sketch, *ranks: int, ago: float = 50.0) -> Sketch:
    """Ranks that lost their connections."""
    for rank in ranks:
        job.says("gloo.closed", rank, ago=ago, peer="[10.0.0.2]:4000", text="Connection closed by peer")
        job.says("python.exception", rank, ago=ago, type="RuntimeError", message="Connection closed by peer",
                 signature="connection", consequence=True)  # fmt: skip
    return job


def test_failures_before_a_restart_are_history() -> None:
    job = Sketch(age=60.0)
    job.ranks().at(COMPUTING, BACKWARD).pulse(switches=30, cores=0.9)
    job.says("python.exception", 1, ago=100, type="ValueError", message="old", signature="user")
    job.says("gloo.closed", 0, ago=99, peer="x")
    assert alarms(job.verdict()) == []


def test_a_rank_that_is_gone_and_that_a_peer_lost_was_killed_whoever_still_waits() -> None:
    """Rank 3 is alive and has not yet written that it lost its peer; nobody could be looked into since."""
    job = victim(Sketch(), 0, 2, ago=4.0)
    job.ranks(0, 2, 1).gone(ago=3.0)
    job.ranks(3).at(ALL_REDUCE).unread("torn")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (1,))
    job.ranks(1).absent()
    assert "rank_killed" not in kinds(job.verdict()), "one that was never seen may have ended well"


def test_killed_before_all_victims_have_been_read() -> None:
    """Live, seconds after: tracebacks are still being written, rank 3 was not read, and all name the node of rank 1."""
    job = Sketch()
    for rank, name in ((0, "node1"), (2, "node2")):
        job.says("gloo.closed", rank, ago=2, node=name, peer="[10.0.0.1]:4000")
    for index in (1, 2):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24"], "physical")
        job.node(f"node{index}", interfaces=(eth,))
    job.ranks().gone(ago=2.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (1,))
    assert "[10.0.0.1]" not in found.summary


@pytest.mark.parametrize(
    ("motion", "ago", "crashed"),
    [
        (JobMotion(False, last_step=7, last_step_at=NOW - 60.0), 60.5, True),
        (JobMotion(None), 60.0, True),
        (JobMotion(False, last_step=900, last_step_at=NOW - 60.0), 500.0, False),  # it was caught, and logged
        (MOVING, 60.0, False),
    ],
)
def test_who_raised_and_cannot_be_looked_into_has_failed_if_nothing_moves_since(
    motion: JobMotion, ago: float, crashed: bool
) -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE).unread("denied: may not be traced")
    job.motion = motion
    job.says("python.exception", 2, ago=ago, type="ValueError", message="loss is nan", signature="user")
    assert ("rank_crashed" in kinds(job.verdict())) == crashed
