"""Ranks that said at the end of their programs that they had not destroyed their groups: they left by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.jobs import ALL_REDUCE, Sketch, first

RAISED: dict[str, Any] = {"type": "KeyError", "message": "'lr'", "signature": "user", "consequence": False}


def waiting(*, seen: bool) -> Sketch:
    """Three ranks wait for rank 2, which is gone: since ten seconds, or from before anybody looked."""
    job = Sketch()
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    if seen:
        job.ranks(2).gone(ago=10.0)
    else:
        job.ranks(2).absent()
    return job


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never seen"])
def test_who_said_so_left_by_itself(seen: bool) -> None:
    job = waiting(seen=seen).says("torch.program_exit", 2, ago=11.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_left_early", (2,))
    assert "rank 2" in found.summary
    assert "finished while 3 others wait in a collective" in found.summary
    assert "line of torch.program_exit" in [line.text for line in found.evidence]


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never seen"])
def test_who_raised_says_so_too_and_crashed(seen: bool) -> None:
    job = waiting(seen=seen).says("python.exception", 2, ago=12.0, **RAISED).says("torch.program_exit", 2, ago=11.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_crashed", (2,))
