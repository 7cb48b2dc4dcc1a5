"""Faults that ranks of a live job told of and survived: a traceback that was caught looks like any other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, COMPUTING, MOVING, NOW, Sketch, alarms, first

GIB = 1 << 30
RETRY = ["with_retry shards.py:46", "main train.py:9"]


def out_of_memory(*, rank: int | None = 1, ago: float = 20.0) -> Sketch:
    """Rank 1 caught it and skips the batch; steps go on. The log of a whole job names no rank."""
    job = Sketch(motion=MOVING)
    job.ranks().at(COMPUTING, ALL_REDUCE)
    job.says("torch.out_of_memory", rank, ago=ago, tried=2 * GIB)
    return job


@pytest.mark.parametrize("ago", [20.0, 4.5])
def test_a_rank_that_ran_out_of_memory_and_works_on_has_not_crashed(ago: float) -> None:
    verdict = out_of_memory(ago=ago).verdict()
    assert (verdict.outcome, alarms(verdict)) == ("healthy", [])
    found = first(verdict)
    assert (found.kind, found.ranks, found.severity) == ("gpu_out_of_memory", (1,), "info")
    assert found.summary.endswith("it lives, and the job moves on")


def test_a_line_without_a_rank_is_of_any_rank_and_none_from_before_the_job_counts() -> None:
    found = first(out_of_memory(rank=None).verdict())
    assert (found.kind, found.severity) == ("gpu_out_of_memory", "info")
    assert found.summary.endswith("all ranks live, and the job moves on")
    job = out_of_memory(rank=None)
    job.ranks(1).gone()
    assert first(job.verdict()).severity == "critical"
    assert out_of_memory(rank=None, ago=90_000).verdict().findings == ()


@pytest.mark.parametrize("kind", ["torch.barrier_failed", "torch.watchdog_stuck", "torch.watchdog_timeout"])
@pytest.mark.parametrize("rank", [1, None])
def test_a_line_of_a_hang_that_the_job_has_survived_is_no_alarm(kind: str, rank: int | None) -> None:
    job = Sketch(motion=MOVING)
    job.ranks().at(COMPUTING, ALL_REDUCE)
    job.says(kind, rank, ago=300.0, op="ALLREDUCE", seq=4, missing=[1], timeout=600_000)
    assert (job.verdict().outcome, alarms(job.verdict())) == ("healthy", [])
    job.motion, job.stood_still = JobMotion(moving=False), 3.5
    assert alarms(job.verdict()) != []


def test_it_has_crashed_where_it_is_gone_or_nothing_moves_any_more() -> None:
    job = out_of_memory()
    job.ranks(1).gone()
    assert (job.verdict().outcome, first(job.verdict()).kind) == ("crashed", "gpu_out_of_memory")
    job = out_of_memory()
    job.motion, job.stood_still = JobMotion(moving=False), 3.5
    assert first(job.verdict()).severity == "critical"


def test_a_job_that_is_held_up_by_a_rank_that_lives_hangs_whatever_the_reason_is() -> None:
    """No further file could be opened; it tries again and again."""
    job = Sketch(stood_still=30.0, span=24.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(RETRY, syscall="clock_nanosleep")
    job.says("host.open_files", 2, ago=25.0)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "limit_reached", (2,))
    job.ranks(2).gone()
    assert job.verdict().outcome == "crashed"


@pytest.mark.parametrize(
    ("since", "restart", "crashed"), [(10.0, 0, True), (700.0, 0, False), (None, 0, True), (None, 1, False)]
)
def test_only_a_traceback_of_the_present_attempt_says_that_a_rank_left_its_program(
    since: float | None, restart: int, crashed: bool
) -> None:
    """Rank 1 was started 600 s ago; of the line the log tells no time, or that it was written after another one."""
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(1).at(["accept socket.py:294", "stay train.py:12", "hook train.py:9"]).process(restart=restart)
    after = {} if since is None else {"after": NOW - since}
    job.says("python.exception", 1, type="KeyError", message="'label'", signature="user",
             frames=["/job/train.py:120 in <module>", "/job/train.py:88 in main"], **after)  # fmt: skip
    seen = job.job()
    stacks = tuple(
        dump._replace(threads=[one._replace(frames=one.frames[:-1]) for one in dump.threads])
        if dump.pid == 1001
        else dump
        for dump in seen.stacks
    )  # its stack begins at the hook
    assert ("rank_crashed" in alarms(diagnose(replace(seen, stacks=stacks)))) is crashed
