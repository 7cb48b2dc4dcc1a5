"""Ranks that wait for their own GPU, as ranks of a job over NCCL do: the GPU tells what that waits for."""

from __future__ import annotations

from typing import Any

import pytest

from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.waits.job_status import native_wanted
from tests.support.jobs import ALL_REDUCE, MOVING, NOW, READING, Sketch, alarms, first, gpu, kinds

SPIN = {"utilization": 100, "power": 120.0}
EMPTY = {"utilization": 0, "power": 75.0}
COMPUTE = {"utilization": 100, "power": 640.0}
SYNCHRONIZE = [
    "synchronize /env/point-packages/torch/cuda/__init__.py:985",
    "log_metrics train.py:85",
    "main train.py:9",
]
OWN_LINE = ["log_metrics train.py:85", "main train.py:9"]
"""A call into a C library: no Python frame shows the wait."""


def spinning(**fields: Any) -> Sketch:
    """Four ranks on two nodes whose GPUs are full at little power; all spin on the CPU at one line."""
    given: dict[str, Any] = {"stood_still": 30.0, **fields}
    job = Sketch(**given)
    job.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    return with_gpus(job, *[SPIN] * 4)


def with_gpus(job: Sketch, *rows: dict[str, Any]) -> Sketch:
    """Give rank n the GPU with the n-th row, two a node."""
    for number in (1, 2):
        own = rows[2 * number - 2 : 2 * number]
        job.node(
            f"node{number}",
            gpus=tuple(gpu(i, [row] * 4, pids=[1000 + 2 * (number - 1) + i]) for i, row in enumerate(own)),
        )
    return job


@pytest.mark.parametrize(("ago", "outcome"), [(2.0, "healthy"), (29.0, "hung")])
def test_who_spins_at_one_place_in_every_look_has_waited_no_longer_than_since_the_last_step(
    ago: float, outcome: str
) -> None:
    """As where one rank is slow, and a step takes seconds: each look meets the others in the same wait."""
    job = with_gpus(spinning(stood_still=ago, patience=10.0, span=20.0, watched=60.0), SPIN, EMPTY, SPIN, SPIN)
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe").pulse(cores=0.0)
    job.motion = JobMotion(moving=ago < 5, proof="steps 4 to 9 in 30 s", last_step=9, last_step_at=NOW - ago)
    assert (job.verdict().outcome == "hung") is (outcome == "hung")


def test_one_rank_reads_and_the_others_wait_for_their_full_gpus() -> None:
    job = with_gpus(spinning(), SPIN, EMPTY, SPIN, SPIN)
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe").pulse(cores=0.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks, job.verdict().outcome) == ("rank_stuck_in_data", (1,), "hung")


def test_ranks_whose_gpus_compute_wait_for_nobody() -> None:
    job = with_gpus(spinning(), *[COMPUTE] * 4)
    verdict = job.verdict()
    assert (verdict.outcome, alarms(verdict)) == ("healthy", [])
    assert "4 GPUs compute" in verdict.summary


def test_steps_of_half_a_minute_with_some_in_all_reduce_and_some_in_synchronize_are_healthy() -> None:
    job = with_gpus(spinning(motion=MOVING), COMPUTE, COMPUTE, SPIN, SPIN)
    job.ranks(2, 3).at(ALL_REDUCE)
    assert alarms(job.verdict()) == []
    assert job.verdict().outcome == "healthy"


def test_all_spin_and_nobody_is_odd() -> None:
    found = first(spinning().verdict())
    assert found.kind == "collective_stalled"
    assert "no rank is odd" in found.summary
    assert "flight recorder" in found.advice


def test_what_stands_still_is_never_healthy_and_what_moves_is_not_stalled() -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().unread("denied: ptrace").pulse(cores=0.0)
    assert kinds(job.verdict()) == ["job_stalled"]
    job.motion = MOVING
    assert (job.verdict().outcome, kinds(job.verdict())) == ("healthy", [])
    job.motion, job.stood_still = type(MOVING)(), 1.0
    assert job.verdict().outcome == "unknown"


def test_read_only_and_all_burn_cpu_is_told_only_after_a_long_call_would_be_over() -> None:
    job = Sketch(stood_still=10.0)
    job.ranks().unread("denied: ptrace").pulse(cores=1.0)
    assert job.verdict().outcome == "unknown"
    job.stood_still = 65.0
    assert kinds(job.verdict()) == ["job_stalled"]


def test_one_torn_stack_does_not_make_a_hang_healthy() -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).unread("torn: no main thread")
    verdict = job.verdict()
    assert (verdict.outcome, kinds(verdict)) == ("hung", ["job_stalled"])
    assert "all_reduce" in verdict.summary


def test_a_rank_whose_stack_stays_torn_is_read_with_a_pause_in_a_job_that_stands_still() -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).unread("torn: no main thread")
    assert native_wanted(job.job()) == (2,)
    job.ranks(2).unread("denied: ptrace")
    assert native_wanted(job.job()) == (), "a pause would be refused as well"
    moving = Sketch(motion=MOVING, stood_still=0.0)
    moving.ranks().at(OWN_LINE, state="R", syscall="running").pulse(cores=1.0)
    moving.ranks(2).unread("torn: no main thread")
    assert native_wanted(moving.job()) == ()


def test_a_long_step_in_which_all_sleep_and_a_rank_that_others_wait_for_visibly_are_no_stall() -> None:
    job = Sketch(stood_still=20.0)
    job.ranks().at(["nap model.py:63", "main train.py:9"], syscall="clock_nanosleep")
    assert kinds(job.verdict()) == []
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).unread("torn: no main thread").pulse(cores=1.0)
    job.stood_still = 15.0
    assert kinds(job.verdict()) == [], "it may compute in one call"
    job.stood_still = 65.0
    assert (first(job.verdict()).kind, first(job.verdict()).certainty) == ("job_stalled", "possible")


def test_the_busy_gpus_of_another_job_are_none_of_a_job_of_cpus() -> None:
    """Three ranks wait in all_reduce and one reads from a pipe, while somebody else's job keeps the GPUs busy."""
    job = Sketch(stood_still=30.0, watched=30.0, span=20.0)
    job.ranks().at(ALL_REDUCE).pulse(cores=0.0)
    job.ranks(2).at(READING, syscall="read", waiting_on="pipe")
    for name in ("node1", "node2"):
        job.node(name, gpus=tuple(gpu(index, [COMPUTE] * 6, pids=[90 + index]) for index in range(2)))
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("hung", (2,)), verdict.summary
