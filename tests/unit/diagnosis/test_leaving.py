"""Ranks that have left their program and do not end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.stacks import ThreadStack
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import DESTROY, Sketch, alarms, first, frame

JOINS = ["_shutdown /usr/lib/python3.11/threading.py:1583"]
FEEDS = [
    "_finalize_join /usr/lib/python3.11/multiprocessing/queues.py:199",
    "__call__ /usr/lib/python3.11/multiprocessing/util.py:224",
    "_exit_function /usr/lib/python3.11/multiprocessing/util.py:334",
]
UPLOADS = [
    "recv_into /usr/lib/python3.11/socket.py:706",
    "upload sync.py:12",
    "run /usr/lib/python3.11/threading.py:975",
]


def left(stack: list[str], *, still: float = 60.0) -> Sketch:
    """Rank 2 is the last of four, and shuts down."""
    job = Sketch(stood_still=still)
    job.ranks(0, 1, 3).absent()
    job.ranks(2).at(stack)
    return job


@pytest.mark.parametrize(("stack", "words"), [(JOINS, "a thread to end"), (FEEDS, "its queue to be emptied")])
def test_the_last_rank_does_not_end(stack: list[str], words: str) -> None:
    verdict = left(stack).verdict()
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.ranks) == ("hung", "rank_stuck_at_exit", (2,))
    assert "does not end, for 60 s now" in found.summary
    assert words in found.summary


def test_a_thread_of_the_jobs_own_is_named() -> None:
    job = left(JOINS).job()
    uploader = ThreadStack(2, 2, "uploader", active=False, owns_gil=False, frames=[frame(one) for one in UPLOADS])
    dumps = tuple(dump._replace(threads=[*dump.threads, uploader]) for dump in job.stacks)
    assert "its thread uploader is at upload (sync.py:12)" in first(diagnose(replace(job, stacks=dumps))).summary


@pytest.mark.parametrize(("still", "outcome"), [(200.0, "unknown"), (400.0, "hung")])
def test_a_tracker_that_still_sends_is_given_five_minutes(still: float, outcome: str) -> None:
    closes = ["finish /opt/env/lib/python3.11/site-packages/wandb/sdk/wandb_run.py:2100", "main loop.py:99"]
    assert left(closes, still=still).verdict().outcome == outcome


def test_who_writes_to_the_end_is_let_alone() -> None:
    job = left(JOINS)
    job.ranks(2).pulse(written=50e6)
    assert alarms(job.verdict()) == []


def test_of_those_who_leave_the_one_that_is_past_the_common_end_is_named() -> None:
    job = Sketch(stood_still=60.0)
    job.ranks(0, 1, 3).at(DESTROY)
    job.ranks(2).at(JOINS)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stuck_at_exit", (2,))
