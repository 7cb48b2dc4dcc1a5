"""What HCCL's ends of waits prove."""

from __future__ import annotations

from typing import Any

from tests.support.jobs import Sketch, after, alarms, first


def waits(*places: int, size: int = 4, remote: int | None = None) -> Sketch:
    """Processes that say so over two lines each, as plogs do; the log tells no global rank."""
    job = after(0)
    for place in places:
        job.says("hccl.timeout", None, ago=9, source=f"plog-{place}.log", op="AllReduce")
        group: dict[str, Any] = {"group": "g", "size": size, "group_rank": place, "remote": remote}
        job.says("hccl.timeout", None, ago=9, source=f"plog-{place}.log", **group)
    return job


def test_who_is_waited_for_and_does_not_report_did_not_come() -> None:
    found = first(waits(0, 1, remote=3).verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", ())
    assert (
        found.summary
        == "HCCL's AllReduce of group g timed out on 2 ranks: rank 3 of the group did not come, as far as logs are here"
    )


def test_the_group_of_all_ranks_tells_the_job_s_rank() -> None:
    job = waits(0, 1, 3)
    job.says("hccl.init", None, ago=99, size=4, group_rank=0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (2,))
    job.says("hccl.init", None, ago=99, size=64, group_rank=0)
    assert first(job.verdict()).ranks == (), "a larger group is known"


def test_nobody_is_accused_where_all_report_or_too_few_do() -> None:
    assert "nothing tells who did not come" in first(waits(0, 1, 2, 3, remote=1).verdict()).summary
    assert "nothing tells who did not come" in first(waits(0, size=8).verdict()).summary


def test_a_lost_heartbeat_is_told_with_the_time_out() -> None:
    job = waits(0, 1).says("hccl.lost", None, ago=99, place="10.0.0.2/5", what="Heartbeat Lost Occurred")
    assert "10.0.0.2/5: Heartbeat Lost Occurred" in first(job.verdict()).summary


def test_a_connection_that_never_came() -> None:
    job = (
        after()
        .says("hccl.connect_timeout", 1, ago=9)
        .says("python.exception", 1, ago=9, type="RuntimeError", message="x")
    )
    verdict = job.verdict()
    assert first(verdict).kind == "nccl_init_failed"
    assert all(one.cause for one in verdict.findings[1:])


def test_an_error_that_is_not_known_is_quoted() -> None:
    verdict = after(0).says("hccl.error", None, ago=9, code="EI0009", message="Transport init error.").verdict()
    assert alarms(verdict) == []
    assert "EI0009 Transport init error." in verdict.summary
