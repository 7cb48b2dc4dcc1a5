"""Where a stuck rank stays, what of its looks counts for that, and which of its own processes it waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collectors.samples.ranks import Helper
from collectors.samples.stacks import ThreadStack
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, BACKWARD, Sketch, alarms, first, frame

COMPILER = "/venv/lib/python3.11/site-packages/torch/_inductor/compile_fx.py"


def held_up_by(culprit: int, *stacks: list[str], **at: Any) -> Sketch:
    """A job in which all but one wait."""
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(culprit).at(*stacks, **at)
    return job


FROM_A_PROCESS = [
    "_recv /usr/lib/python3.11/multiprocessing/connection.py:378",
    "recv_bytes /usr/lib/python3.11/multiprocessing/connection.py:215",
    "get /usr/lib/python3.11/multiprocessing/queues.py:103",
    "take_next results.py:20",
    "main run.py:9",
]


def child(pid: int, state: str, command: str = "python3 run.py", ended: int | None = None) -> Helper:
    return Helper(pid, 1002, "data_worker", state, "", 0.0, 0, command, ended)


def test_processes_that_may_not_have_been_looked_at_yet_are_not_missed() -> None:
    """Nor is the rank accused: they may compute for it."""
    verdict = held_up_by(2, FROM_A_PROCESS, syscall="read", waiting_on="pipe").verdict()
    assert alarms(verdict) == []
    assert (first(verdict).kind, first(verdict).ranks) == ("waiting", (2,))


ON_ITS_WAY = ["log_metrics train.py:60", "main run.py:8"]


def stopped_at(stack: list[str], *before: list[str]) -> Finding:
    """What is said of a rank that the first looks since the job stands met at ``before``, and the others at a point."""
    job = held_up_by(1, *before, *[stack] * (5 - len(before)), syscall="recvfrom")
    job.stood_still = 4.0
    return first(job.verdict())


def test_a_rank_that_is_met_at_several_points_long_after_the_job_stopped_moves() -> None:
    found = stopped_at(["next_prompt run.py:40", "main run.py:9"], ON_ITS_WAY, ON_ITS_WAY)
    assert "next_prompt" not in found.summary


def test_a_rank_that_computes_is_not_where_two_looks_met_it() -> None:
    step, other = ["mix model.py:31", "main run.py:9"], ["log model.py:60", "main run.py:8"]
    job = held_up_by(1, other, *[step] * 4, state="R")
    job.ranks(1).pulse(cores=1.0)
    job.stood_still = 10.0
    assert alarms(job.verdict()) == [], "a long step of its own"


def test_the_call_of_the_main_thread_says_nothing_of_a_hook_in_another_one() -> None:
    """Main sleeps at a futex until the engine is done: that is no lock which the hook wants."""
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(BACKWARD)
    made = job.job()
    hook = ThreadStack(2, 7, "", active=False, owns_gil=False, frames=[frame("swap_in offload.py:30")])
    dumps = [dump._replace(threads=[*dump.threads, hook]) if dump.pid == 1002 else dump for dump in made.stacks]
    found = first(diagnose(replace(made, stacks=tuple(dumps))))
    assert (found.kind, found.ranks) == ("rank_stuck_in_code", (2,))
    assert "swap_in (offload.py:30)" in found.summary
