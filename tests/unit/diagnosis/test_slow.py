"""Jobs that move, but slowly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.rules.slow import slowness_judged
from hangtop.diagnosis.waits.job_status import status_of_job
from tests.support.jobs import BACKWARD, COMPUTING, MOVING, NOW, READING, Sketch, alarms, first, kinds

SLUGGISH = ["slow_matmul model.py:50", *COMPUTING[2:]]


def test_one_rank_is_late_in_every_look() -> None:
    job = Sketch()
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    verdict = job.verdict()
    found = first(verdict)
    assert (found.kind, found.ranks, verdict.outcome) == ("straggler_rank", (2,), "slow")
    assert "slow_matmul (model.py:50)" in found.summary
    assert "100% of the looks" in found.summary


def test_a_rank_that_every_look_met_at_one_place_since_the_last_step_is_not_slow_but_may_be_stuck() -> None:
    """A sign of motion that was none, on a loaded node, made a loop without end a slow rank."""
    job = Sketch(motion=JobMotion(True, "2 ranks computing", 12, NOW - 30.0))
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    assert "straggler_rank" not in kinds(job.verdict())
    job.motion = replace(job.motion, last_step_at=NOW - 1.0)
    assert "straggler_rank" in kinds(job.verdict()), "steps were told between the looks"


def test_looks_between_which_no_rank_waited_anew_are_of_one_wait() -> None:
    """As of a data loader that takes 3 s for a batch now and then, on any rank."""
    job = Sketch(motion=JobMotion(True, "3 ranks computing, reading or writing"))
    job.ranks().at(BACKWARD).pulse(switches=0, cores=0.0)
    job.ranks(2).at(READING)
    assert "straggler_rank" not in kinds(job.verdict())


@pytest.mark.parametrize(("pause", "step"), [(20.0, None), (None, 20.0)])
def test_looks_within_one_step_are_of_one_wait(pause: float | None, step: float | None) -> None:
    job = Sketch(patience=60.0, watched=90.0, stood_still=1.0, motion=replace(MOVING, step_s=step), span=7.0)
    job.usual_pause = pause
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    assert "straggler_rank" not in kinds(job.verdict())
    assert not slowness_judged(status_of_job(job.job()))
    job.span = 21.0
    assert "straggler_rank" in kinds(job.verdict())


def test_a_pause_that_the_job_takes_at_every_step_is_its_rhythm() -> None:
    job = Sketch(looks=6, span=24.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(READING)
    job.patience, job.watched, job.usual_pause = 60.0, 600.0, 20.0
    job.stood_still = 0.5  # all looks but the last are of the waits before
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("straggler_rank", (2,))
    job.stood_still = 25.0
    assert alarms(job.verdict()) == [], "all looks are of one wait, which may become a hang"


def test_who_was_late_in_one_short_pause_alone_is_not_slow() -> None:
    """A short watch has several looks at it; of two such pauses a rank that is late in both is."""
    job = Sketch(looks=6, span=4.0)
    hands, goes_on = ["hand_over train.py:50", "main train.py:9"], BACKWARD
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(hands, hands, hands, hands, hands, goes_on).pulse(switches=9, cores=0.03)
    job.motion, job.stood_still = MOVING, 0.0
    assert kinds(job.verdict()) == ["straggler_rank"]
    job.pauses = ((NOW - 4.1, NOW - 0.5),)
    assert "straggler_rank" not in kinds(job.verdict())
    job.pauses = ((NOW - 4.1, NOW - 2.0), (NOW - 1.9, NOW - 0.5))
    assert kinds(job.verdict()) == ["straggler_rank"]


@pytest.mark.parametrize(("waited", "slow"), [((80, 90, 85, 75), False), ((80, 90, 5, 75), True)])
def test_where_all_wait_for_a_cpu_who_is_last_is_chance(waited: tuple[int, ...], slow: bool) -> None:
    """One that sleeps in its own code meanwhile is late by itself."""
    job = Sketch(looks=6, span=10.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(["write_line train.py:50", "main train.py:9"], state="S").pulse(switches=9, cores=0.03)
    for rank, share in enumerate(waited):
        job.ranks(rank).waits_for_cpu(share, nice=10)
    job.motion, job.stood_still = MOVING, 0.0
    assert ("straggler_rank" in kinds(job.verdict())) is slow


def test_who_may_be_slow_is_looked_at_again_before_it_is_called_chance() -> None:
    """Five looks at a rank that is never met waiting, at others that wait in three of five: it may be chance."""
    job = Sketch(motion=MOVING, stood_still=0.0)
    job.ranks().at(BACKWARD, SLUGGISH, BACKWARD, SLUGGISH, BACKWARD).pulse(switches=9, cores=0.4)
    job.ranks(2).at(SLUGGISH).pulse(switches=9, cores=0.4)
    assert alarms(job.verdict()) == []
    assert not slowness_judged(status_of_job(job.job()))
    job.ranks(2).at(BACKWARD, SLUGGISH, SLUGGISH, BACKWARD, BACKWARD)
    assert slowness_judged(status_of_job(job.job()))
