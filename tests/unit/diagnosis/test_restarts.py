"""A launcher that starts all ranks anew."""

from __future__ import annotations

from typing import Any

from hangtop.diagnosis.finding import Finding, Verdict
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import ALL_REDUCE, NOW, Sketch


def started_anew(times: int, **fields: Any) -> Sketch:
    """The ranks run for four seconds; rank 2 raised in an earlier attempt, and its peers lost the connection."""
    job = Sketch(age=4.0, **fields)
    job.ranks().at(ALL_REDUCE).process(restart=times)
    raised: dict[str, Any] = {
        "type": "ValueError",
        "message": "bad shard",
        "frame": "train.py:113 in main",
        "frames": [],
    }
    job.says("python.exception", 2, ago=40.0, **raised)
    job.says(
        "python.exception", 3, ago=39.5, type="RuntimeError", message="Connection closed by peer", consequence=True
    )
    job.says("gloo.closed", 3, peer="[10.0.0.2]:32688", raised=True, after=NOW - 39.5)
    return job


def told(verdict: Verdict) -> Finding:
    return next(finding for finding in verdict.findings if finding.kind == "job_restarts")


def test_the_first_failure_of_the_starts_before_is_told() -> None:
    verdict = started_anew(3).verdict()
    found = told(verdict)
    assert (verdict.outcome, found.severity, found.ranks) == ("crashed", "critical", (2,))
    assert "started anew 3 times, 4 s ago the last; rank 2 had failed first: ValueError: bad shard" in found.summary


def test_once_steps_are_counted_again_it_is_information() -> None:
    moves = JobMotion(True, "steps 3 to 5 in 2 s", 5, NOW - 0.5)
    job = started_anew(3, motion=moves)
    job.ranks().pulse(switches=40.0)
    verdict = job.verdict()
    assert (verdict.outcome, told(verdict).severity) == ("healthy", "info")
