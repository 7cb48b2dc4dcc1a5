"""A rank that is not there, and a kill for want of memory that nobody can pin on it by its number."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, Sketch, first

AGE = 600.0


def without_rank_2(ago: float, *, node: str = "node2", pid: int = 31_337) -> Sketch:
    """Nobody is rank 2, of two nodes; the kernel of one killed a process so long ago."""
    job = Sketch(age=AGE)
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).absent()
    return job.says("kernel.oom", node=node, ago=ago, pid=pid, process="python")


def test_a_kill_since_the_job_began_where_a_rank_is_missing_is_told() -> None:
    found = first(without_rank_2(60.0).verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (2,))
    assert "the kernel killed process 31337 (python) there 60 s ago, out of memory" in found.summary
    assert "memory" in found.advice
    assert any("kernel.oom" in proof.text for proof in found.evidence)


@pytest.mark.parametrize(
    ("ago", "node", "pid"),
    [(AGE + 30.0, "node2", 31_337), (60.0, "node1", 31_337), (60.0, "node2", 1003)],
    ids=["before the job", "on another node", "of a rank that lives"],
)
def test_other_kills_are_not(ago: float, node: str, pid: int) -> None:
    found = first(without_rank_2(ago, node=node, pid=pid).verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (2,))
    assert "killed" not in found.summary


@pytest.mark.parametrize(("ago", "told"), [(11.0, True), (40.0, False)])
def test_a_kill_at_the_end_of_a_rank_that_was_seen_is_told(ago: float, told: bool) -> None:
    job = Sketch(age=AGE)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).gone(ago=10.0)
    found = first(job.says("kernel.oom", node="node2", ago=ago, pid=31_337, process="python").verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (3,))
    assert ("the kernel killed process 31337" in found.summary) is told
