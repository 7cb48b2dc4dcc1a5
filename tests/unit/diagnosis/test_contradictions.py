"""One sign that contradicts all others settles nothing: the word is unknown, and both sides are told."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import ALL_REDUCE, NOW, READING, Sketch, c10d

GPUS = JobMotion(True, "4 ranks computing, GPUs at 87% of their power", by_gpus=True)
STEPS = JobMotion(True, "2 ranks, steps 1,204 to 1,219 in 4 s", 1219, NOW - 0.2)
SYNCHRONIZE = ["synchronize /env/site-packages/torch/cuda/__init__.py:985", "step train.py:85", "main train.py:9"]
COMPUTE = [{"utilization": 100, "power": 610.0}] * 6


def computing(seconds: float, motion: JobMotion) -> Sketch:
    """All ranks are at one line for so long, and their GPUs draw the power of work."""
    job = Sketch(span=seconds, watched=seconds, motion=motion, stood_still=0.5 if motion.moving else seconds)
    job.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    return job.gpus(*[COMPUTE] * 4)


@pytest.mark.parametrize("motion", [GPUS, JobMotion()], ids=["seen to move", "not seen to move"])
def test_the_power_of_gpus_alone_is_no_health_of_ranks_that_stand_still(motion: JobMotion) -> None:
    assert computing(10.0, motion).verdict().outcome == "healthy"
    verdict = computing(70.0, motion).verdict()
    assert verdict.outcome == "unknown"
    assert "of their power, but" in verdict.summary or "4 GPUs compute, but" in verdict.summary
    assert "ranks 0-3 have not moved for 70 s (waits for its GPU)" in verdict.summary
    assert computing(70.0, STEPS).verdict().outcome == "healthy", "steps are more than power"


def test_a_gpu_that_computes_proves_nothing_for_the_others() -> None:
    job = computing(10.0, JobMotion())
    job.ranks().at(READING, syscall="read", waiting_on="/data/a").pulse(cores=0.0)
    idle = [{"utilization": 0, "power": 75.0}] * 6
    assert job.gpus(idle, COMPUTE, idle, idle).verdict().outcome == "unknown"


def test_a_rank_that_stands_still_in_a_wait_while_the_others_step_on_is_told_beside_their_steps() -> None:
    """What the others do is met at other lines each time: for which ranks it waits is not known."""
    job = Sketch(motion=STEPS, stood_still=0.3, span=20.0, watched=20.0, patience=10.0)
    job.ranks().at(ALL_REDUCE, ["mix model.py:31", "main loop.py:90"]).pulse(cores=0.4, switches=40.0)
    job.ranks().at(c10d("all_gather"), c10d("all_reduce", "other loop.py:4")).pulse(cores=0.4, switches=40.0)
    job.ranks(0).at(c10d("broadcast", "take eval.py:7")).pulse()
    verdict = job.verdict()
    assert verdict.outcome == "unknown"
    assert "steps 1,204 to 1,219 in 4 s, but rank 0 has not moved for 20 s (waits in broadcast)" in verdict.summary


def test_a_stand_is_told_from_the_last_step_on() -> None:
    job = Sketch(motion=JobMotion(False, "", 9, NOW - 300.0, stands_since=NOW - 300.0), stood_still=4.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(READING, syscall="read", waiting_on="/data/a")
    assert job.verdict().summary.startswith("3 ranks wait 5 min")


@pytest.mark.parametrize(("pauses", "outcome"), [(1, "unknown"), (3, "unknown"), (4, "healthy")])
def test_one_longer_pause_is_no_habit(pauses: int, outcome: str) -> None:
    ends = [NOW - 100.0 * number for number in range(1, pauses + 1)]
    job = Sketch(patience=60.0, watched=600.0, stood_still=20.0, pauses=tuple((end - 30.0, end) for end in ends))
    job.usual_pause = 30.0
    job.ranks().at(READING)
    assert job.verdict().outcome == outcome
