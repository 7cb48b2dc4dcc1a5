"""One GPU that computes while the others wait for it, in a job that moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import Sketch, alarms, first, gpu

SPIN = {"utilization": 100, "power": 120.0}
COMPUTE = {"utilization": 100, "power": 640.0}
SYNCHRONIZE = ["synchronize /env/site-packages/torch/cuda/__init__.py:985", "train_step train.py:85", "main train.py:9"]
WAITS = [COMPUTE, SPIN, SPIN, SPIN, SPIN] * 5
"""A step takes five seconds, four of which it waits."""
LATE = [COMPUTE] * 25


def steps(*rows: Sequence[dict[str, float]], own: Sequence[str] = SYNCHRONIZE) -> Sketch:
    """Four ranks that all wait for their own GPUs in every look; rank n's GPU shows the n-th row, a look a second."""
    job = Sketch(patience=60.0, watched=60.0, stood_still=2.0, span=6.0)
    job.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    job.ranks(2).at(own, state="R")
    job.motion = JobMotion(moving=True, proof="steps 4 to 9 in 25 s", last_step=9, step_s=5.0)
    for number in (1, 2):
        pair = rows[2 * number - 2 : 2 * number]
        found = tuple(gpu(i, list(row), pids=[1000 + 2 * (number - 1) + i]) for i, row in enumerate(pair))
        job.node(f"node{number}", gpus=found)
    return job


def test_the_others_wait_for_the_gpu_that_computes() -> None:
    verdict = steps(WAITS, WAITS, LATE, WAITS).verdict()
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.ranks) == ("slow", "straggler_rank", (2,))
    assert "rank 2 worked for 100% of it, the others waited for 80%" in found.evidence[0].text


def test_gpus_that_all_compute_wait_for_nobody() -> None:
    assert alarms(steps(LATE, LATE, LATE, LATE).verdict()) == []
    busy = [COMPUTE, COMPUTE, COMPUTE, SPIN, SPIN] * 5
    assert alarms(steps(busy, busy, LATE, busy).verdict()) == []


@pytest.mark.parametrize("takes", [8.0, None])
def test_within_a_few_long_steps_now_one_computes_and_now_another(takes: float | None) -> None:
    job = steps(WAITS, WAITS, LATE, WAITS)
    job.motion = replace(job.motion, step_s=takes)
    assert alarms(job.verdict()) == []
