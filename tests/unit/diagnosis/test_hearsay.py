"""The last resort: words that no rule knows by name, and when they are not believed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.jobs import Sketch, after, alarms, first, kinds


def heard(**data: Any) -> Sketch:
    """A log that is over and says only this."""
    return after().says("log.error", data.pop("rank", None), ago=9, **data)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (
            {"told": "exception", "type": "ValueError", "message": "bad", "signature": "user"},
            "rank_crashed",
            "ValueError: bad",
        ),
        ({"told": "exit", "exitcode": 3}, "child_failed_no_detail", "exit code 3"),
        ({"told": "exit", "exitcode": 137, "signal": "KILL"}, "rank_killed", "signal KILL"),
        ({"told": "exit", "exitcode": -11, "signal": "SEGV"}, "rank_crashed", "signal SEGV"),
        ({"told": "stack", "message": "a call of CUDA failed", "signature": "cuda"}, "rank_crashed", "CUDA"),
        ({"told": "stack", "message": "the store did not answer", "signature": "store"}, "store_timeout", "store"),
        ({"told": "level", "message": "no more shards here", "signature": "user"}, "rank_crashed", "no more shards"),
        (
            {"told": "memory", "message": "Worker exceeded 95% memory budget", "signature": "host_memory"},
            "host_out_of_memory",
            "exceeded 95% memory",
        ),
        ({"told": "timeout", "text": "allreduce timed out"}, "watchdog_timeout", "allreduce timed out"),
    ],
)  # fmt: skip
def test_what_words_mean(data: dict[str, Any], kind: str, words: str) -> None:
    found = first(heard(**data).verdict())
    assert (found.kind, found.severity) == (kind, "critical")
    assert words in found.summary
    assert found.certainty != "proven"


def test_the_rank_is_that_of_the_line_or_the_one_it_speaks_of() -> None:
    assert first(heard(told="exit", exitcode=3, about=5).verdict()).ranks == (5,)
    assert first(heard(rank=2, told="exit", exitcode=3, about=5).verdict()).ranks == (2,)
    assert first(heard(told="timeout", about=5, text="barrier timed out").verdict()).ranks == (), "it only waited"


@pytest.mark.parametrize(
    "data",
    [
        {"told": "exit", "exitcode": -15, "signal": "TERM"},
        {"told": "exception", "type": "KeyboardInterrupt", "signature": "interrupt"},
        {"told": "exit", "exitcode": 3, "survived": True},
    ],
)
def test_what_is_not_believed(data: dict[str, Any]) -> None:
    assert alarms(heard(**data).verdict()) == []


def test_a_run_that_came_to_its_end_outweighs_it() -> None:
    assert alarms(heard(told="exit", exitcode=3).says("job.finished", None, ago=1).verdict()) == []


def test_whoever_is_known_by_name_is_told_instead() -> None:
    job = heard(told="exception", type="ValueError", message="bad", signature="user")
    job.says("torch.out_of_memory", 1, ago=9)
    assert kinds(job.verdict()) == ["gpu_out_of_memory"]


def test_a_cause_comes_before_what_follows_from_it() -> None:
    job = heard(told="exception", type="RuntimeError", message="Connection reset by peer", signature="connection",
                consequence=True)  # fmt: skip
    job.says("log.error", 2, ago=9, told="exit", exitcode=3)
    assert (first(job.verdict()).kind, first(job.verdict()).ranks) == ("child_failed_no_detail", (2,))


def test_a_job_that_lives_is_not_judged_by_it() -> None:
    job = Sketch().says("log.error", 1, ago=9, told="exit", exitcode=3)
    assert "child_failed_no_detail" not in kinds(job.verdict())
