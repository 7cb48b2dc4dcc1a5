"""A rank that died and was started anew by itself, while the others stay in their collectives."""

from __future__ import annotations

from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, INIT, MOVING, NOW, Sketch, alarms, first
from tests.unit.diagnosis.test_own_gpu import SPIN, spinning, with_gpus


def restarted(rank: int = 2, ago: float = 20.0) -> Sketch:
    """Three ranks spin for their GPUs, which wait for the fourth; that one is up since ``ago`` seconds, and starts."""
    job = with_gpus(spinning(), *[SPIN] * 4)
    job.ranks(rank).at(INIT).pulse(cores=0.0).process(started=NOW - ago)
    return job


def test_it_is_named_and_not_those_who_train() -> None:
    found = first(restarted().verdict())
    assert (found.kind, found.ranks) == ("init_hang", (2,))
    assert "rank 2 waits to start while 3 others wait in training: it begins anew alone" in found.summary


def test_nobody_is_told_while_the_others_move() -> None:
    job = restarted()
    job.stood_still, job.motion = 0.0, MOVING
    assert alarms(diagnose(job.job())) == []


def test_one_that_is_through_among_those_who_start_is_not_said_not_to_have_come() -> None:
    """Another rank took the job for larger: gloo connects the first to one another, and the last to none."""
    job = Sketch(stood_still=60.0)
    job.ranks().at(INIT)
    job.ranks(2).at(ALL_REDUCE)
    found = next(found for found in job.verdict().findings if found.kind == "init_hang")
    assert found.ranks == ()
    assert "rank 2 is through, the others are not" in found.summary
