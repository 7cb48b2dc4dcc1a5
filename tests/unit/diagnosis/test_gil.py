"""A watchdog that is stuck itself, and one that stopped after a collective had timed out."""

from __future__ import annotations

from tests.support.jobs import after, kinds


def test_watchdogs_that_stop_in_a_job_that_timed_out_are_no_cause() -> None:
    job = after()
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=1000, op="ALLREDUCE", seq=7, group_name="default_pg")
    for rank in range(4):
        job.says("torch.watchdog_stuck", rank, ago=500 - rank, seconds=480)
    assert kinds(job.verdict()) == ["watchdog_timeout"]
