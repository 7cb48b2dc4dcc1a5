"""A slow rank in a job over NCCL, whose waits are calls that no Python frame shows: GPUs tell that they are waits."""

from __future__ import annotations

from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import READING, Sketch, alarms, first, gpu

OWN_LINE = ["train_step train.py:85", "main train.py:9"]
"""``loss.item()``."""


def moving(power: float, utilization: float = 90.0, state: str = "R") -> Sketch:
    """Four ranks in steps of a second; but for rank 2, which reads, all are at one line, with GPUs at this power."""
    job = Sketch(patience=60.0, watched=60.0, stood_still=0.0, span=6.0)
    job.ranks().at(OWN_LINE, state=state).pulse(cores=1.0)
    job.ranks(2).at(READING, syscall="read").pulse(cores=0.0)
    job.motion = JobMotion(moving=True, proof="steps 4 to 9 in 5 s", last_step=9, step_s=1.0)
    for number in (1, 2):
        rows = [{"utilization": 3.0, "power": 80.0} if rank == 2 else {"utilization": utilization, "power": power}
                for rank in (2 * number - 2, 2 * number - 1)]  # fmt: skip
        job.node(
            f"node{number}",
            gpus=tuple(gpu(i, [row] * 8, pids=[1000 + 2 * (number - 1) + i]) for i, row in enumerate(rows)),
        )
    return job


def test_ranks_whose_gpus_spin_wait_for_the_one_that_reads() -> None:
    found = first(moving(125.0).verdict())
    assert (found.kind, found.ranks) == ("straggler_rank", (2,))
    assert "read" in found.summary


def test_ranks_whose_gpus_compute_are_not_said_to_wait() -> None:
    job = moving(640.0)
    assert "straggler_rank" not in [found.kind for found in job.verdict().findings]
    assert alarms(job.verdict()) == []


def test_a_rank_that_prepares_before_the_first_step_is_not_slow() -> None:
    """It computes in a pool of processes, say; the others spin in one wait for it, and nobody was told a step."""
    job = moving(125.0)
    job.motion = JobMotion(moving=True, proof="1 rank computing, reading or writing")
    assert "straggler_rank" not in [found.kind for found in job.verdict().findings]
