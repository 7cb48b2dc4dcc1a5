"""A rank that writes while its peers wait, of which no stack could be read."""

from __future__ import annotations

from tests.support.jobs import BARRIER, Sketch, kinds


def test_a_rank_that_nobody_looked_into_and_that_saves_is_no_stall() -> None:
    job = Sketch(watched=60.0, span=14.0, stood_still=14.0, patience=10.0)
    job.ranks().at(BARRIER)
    job.ranks(3).unread("timeout: py-spy did not come back")
    job.ranks(3).pulse(written=5e6, switches=20)
    assert "job_stalled" not in kinds(job.verdict())
