"""A word that a job is to be ended is not its end."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, MOVING, READING, Sketch, first, kinds


def told(ago: float = 6.0) -> Sketch:
    """A job of whose instance a log says that it is preempted."""
    job = Sketch(watched=60.0, stood_still=0.5, motion=MOVING)
    job.ranks().at(ALL_REDUCE).pulse(switches=50, cores=0.2)
    return job.says("slurm.cancelled", ago=ago, launcher="cloud", reason="preemption", why="Preemption notice")


def test_a_job_that_was_told_and_moves_on_has_not_ended() -> None:
    verdict = told().verdict()
    assert verdict.outcome == "healthy"
    found = first(verdict)
    assert (found.kind, found.severity) == ("rank_killed", "info")
    assert "is to be ended from outside: preemption; its ranks live" in found.summary


def test_one_whose_rank_waits_for_the_end_hangs() -> None:
    job = told(ago=25.0)
    job.stood_still, job.span, job.motion = 20.0, 15.0, job.motion.__class__()
    job.ranks().pulse()
    job.ranks(1).at(READING)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "rank_stuck_in_data", (1,))


@pytest.mark.parametrize("gone", [(0,), (0, 1, 2, 3)])
def test_one_whose_ranks_have_gone_was_ended(gone: tuple[int, ...]) -> None:
    job = told()
    job.ranks(*gone).gone(2.0)
    assert first(job.verdict()).severity == "critical"
    assert "rank_killed" in kinds(job.verdict())
