"""Ranks that have left their program and do not end: nobody is accused, and where they are is told."""

from __future__ import annotations

from tests.support.jobs import Sketch, alarms

JOINS = ["_shutdown /usr/lib/python3.11/threading.py:1583"]


def test_the_last_rank_does_not_end() -> None:
    job = Sketch(stood_still=60.0)
    job.ranks(0, 1, 3).absent()
    job.ranks(2).at(JOINS)
    verdict = job.verdict()
    assert (verdict.outcome, alarms(verdict)) == ("unknown", [])
    assert "nothing has moved for 60 s: rank 2 at exit, waits for a thread to end" in verdict.summary
