"""One rank's GPU computes now and then while those of all others are full of a kernel that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.jobs import Sketch, alarms, first, gpu, kinds

SPIN = {"utilization": 100, "power": 120.0}
COMPUTE = {"utilization": 70, "power": 500.0}
EMPTY = {"utilization": 0, "power": 75.0}
SYNCHRONIZE = ["synchronize /env/point-packages/torch/cuda/__init__.py:985", "search lr.py:20", "main train.py:9"]
SEARCHES = [COMPUTE, SPIN, EMPTY, COMPUTE, SPIN, COMPUTE, SPIN, EMPTY, SPIN]
WAITS = [SPIN] * 9


def job(*row: dict[str, Any], others: Sequence[dict[str, Any]] = WAITS) -> Sketch:
    """Four ranks that wait for their GPUs in every look of a job that stands still; rank 1's GPU shows the row."""
    made = Sketch(stood_still=9.5, patience=4.0)
    made.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    for number in (1, 2):
        pids = (998 + 2 * number, 999 + 2 * number)
        rows = [list(row) if pid == 1001 else list(others) for pid in pids]
        made.node(f"node{number}", gpus=tuple(gpu(i, own, pids=[pids[i]]) for i, own in enumerate(rows)))
    return made


def test_who_computes_now_and_then_is_waited_for() -> None:
    verdict = job(*SEARCHES).verdict()
    assert alarms(verdict) == []
    assert (first(verdict).kind, first(verdict).ranks) == ("waiting", (1,))


def test_what_was_launched_before_the_job_came_to_stand_is_no_work_of_now() -> None:
    assert "collective_stalled" in kinds(job(COMPUTE, COMPUTE, *WAITS[2:]).verdict())


def test_a_gpu_that_is_full_or_empty_by_turns_does_not_compute() -> None:
    assert alarms(job(SPIN, EMPTY, SPIN, SPIN, SPIN, EMPTY, SPIN, SPIN, SPIN).verdict()) != []
