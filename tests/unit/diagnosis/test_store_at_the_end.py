"""Words about the store when the run is over: they follow from its end, and accuse nobody."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.jobs import Sketch, after, alarms, kinds


def ended(*ranks: int, ago: float = 9) -> Sketch:
    """A run whose ranks came to the end of their program, and left their groups alone."""
    job = after()
    for rank in ranks:
        job.says("torch.program_exit", rank, ago=ago)
    return job


@pytest.mark.parametrize(
    ("kind", "data"), [("torch.store_lost", {"from_rank": 0}), ("elastic.rendezvous", {"problem": "connection"})]
)
def test_who_loses_the_store_behind_the_end_of_rank_0_tells_of_no_fault(kind: str, data: dict[str, Any]) -> None:
    assert kinds(ended(0, 1).says(kind, 1, ago=8, **data).verdict()) == []
    assert alarms(ended(1).says(kind, 1, ago=8, **data).verdict()), "rank 0 has not said so"
    assert alarms(ended(0, 1, ago=2).says(kind, 1, ago=8, **data).verdict()), "it lived on"
    assert kinds(ended(1).says(kind, 1, ago=8, **data, warned="keep-alive").verdict()) == (
        [] if kind == "elastic.rendezvous" else ["store_timeout"]
    )
