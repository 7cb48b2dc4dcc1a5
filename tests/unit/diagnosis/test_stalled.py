"""Jobs that stand still with nobody to blame: when that is an alarm, and when a step may just be long."""

from __future__ import annotations

from dataclasses import replace

from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import Sketch, alarms, gpu, kinds


def all_at(line: str, syscall: str, still: float) -> Sketch:
    """Four ranks at one line of their own code, blocked in one call, their GPUs empty, for so many seconds."""
    job = Sketch(stood_still=still)
    job.ranks().at([line, "main train.py:9"], state="S", syscall=syscall)
    job.ranks().pulse(cores=0.0, switches=0.5)
    for number in (1, 2):
        first = 1000 + 2 * (number - 1)
        empty = [{"utilization": 0, "power": 75.0}] * 4
        job.node(f"node{number}", gpus=tuple(gpu(i, empty, pids=[first + i]) for i in range(2)))
    return job


def test_ranks_that_all_sleep_in_their_own_code_are_given_the_time_of_a_long_step() -> None:
    """Between micro-batches, or until a service answers: each wakes by itself."""
    sleeping = "accumulate train.py:60", "clock_nanosleep"
    assert alarms(all_at(*sleeping, still=30.0).verdict()) == []
    assert kinds(all_at(*sleeping, still=70.0).verdict()) == ["job_stalled"]


def test_a_look_that_caught_them_awake_changes_nothing() -> None:
    job = all_at("accumulate train.py:60", "clock_nanosleep", still=30.0)
    awake = job.job()
    dumps = [
        dump._replace(state="R", syscall="running") if place % 5 == 4 else dump
        for place, dump in enumerate(awake.stacks)
    ]
    assert alarms(diagnose(replace(awake, stacks=tuple(dumps)))) == []


def test_ranks_that_all_wait_for_something_that_does_not_come_are_not() -> None:
    assert kinds(all_at("fill_buffer store.py:60", "recvfrom", still=30.0).verdict()) == ["job_stalled"]
