"""A watchdog that is stuck itself: the cause of time-outs, or what came of them."""

from __future__ import annotations

from tests.support.jobs import Sketch, after, first, kinds


def test_stuck_watchdogs_are_told_once_with_all_their_ranks() -> None:
    job = after()
    for rank in range(4):
        job.says("torch.watchdog_stuck", rank, ago=9, seconds=480)
    verdict = job.verdict()
    assert kinds(verdict) == ["gil_hang"]
    assert first(verdict).ranks == (0, 1, 2, 3)


def _timed_out(ago: float) -> Sketch:
    job = after()
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=ago, op="ALLREDUCE", seq=7, group_name="default_pg")
    return job


def test_watchdogs_that_stop_after_a_timeout_are_what_came_of_it() -> None:
    job = _timed_out(1000)
    for rank in range(4):
        job.says("torch.watchdog_stuck", rank, ago=1000 - 490 - rank, seconds=480)
    verdict = job.verdict()
    assert [(one.kind, one.ranks, one.cause) for one in verdict.findings] == [
        ("watchdog_timeout", (2,), ""),
        ("gil_hang", (0, 1, 2, 3), "watchdog_timeout"),
    ]


def test_a_watchdog_that_stopped_before_the_others_timed_out_is_the_cause() -> None:
    verdict = _timed_out(1000).says("torch.watchdog_stuck", 2, ago=900, seconds=480).verdict()
    assert [(one.kind, one.ranks, one.cause) for one in verdict.findings] == [
        ("gil_hang", (2,), ""),
        ("watchdog_timeout", (2,), "gil_hang"),
    ]


def test_without_times_only_its_own_word_tells_that_it_still_ran() -> None:
    def of(rank: int) -> Sketch:
        job = after().says("torch.watchdog_timeout", 0, op="ALLREDUCE", seq=7, source="train.log")
        return job.says("torch.watchdog_stuck", rank, seconds=480, source="train.log")

    assert first(of(0).verdict()).kind == "watchdog_timeout"
    other = first(of(2).verdict())
    assert (other.kind, other.ranks) == ("gil_hang", (2,))
