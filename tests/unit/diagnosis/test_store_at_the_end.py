"""Words about the store when the run is over: they follow from its end, and accuse nobody."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.jobs import Sketch, after, alarms, first, kinds

EXIT = "torch.program_exit"


def ended(*ranks: int, ago: float = 9) -> Sketch:
    """A run whose ranks came to the end of their program, and left their groups alone."""
    job = after()
    for rank in ranks:
        job.says(EXIT, rank, ago=ago)
    return job


@pytest.mark.parametrize(
    ("kind", "rank", "data"),
    [
        ("torch.store_lost", 1, {}),
        ("torch.store_lost", 1, {"from_rank": 0}),
        ("elastic.rendezvous", None, {"problem": "timeout", "warned": "keep-alive"}),
        ("elastic.rendezvous", None, {"problem": "connection", "warned": "shutdown"}),
        ("elastic.rendezvous", 1, {"problem": "connection"}),
    ],
)
def test_who_loses_the_store_behind_the_end_of_rank_0_tells_of_no_fault(
    kind: str, rank: int | None, data: dict[str, Any]
) -> None:
    verdict = ended(0, 1).says(kind, rank, ago=8, **data).verdict()
    assert not alarms(verdict)
    assert kinds(verdict) == ["store_timeout"]
    assert alarms(ended(1).says(kind, rank, ago=8, **dict(data, warned="")).verdict())  # rank 0 has not said so
    assert alarms(ended(0, 1, ago=2).says(kind, rank, ago=8, **dict(data, warned="")).verdict())  # it lived on


def test_a_rank_that_failed_is_told_whoever_lost_the_store() -> None:
    job = ended(0, 1).says("elastic.rendezvous", None, ago=8, problem="connection", warned="shutdown")
    job.says("python.exception", 3, ago=10, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_crashed", (3,))
