"""Which results stay on the page: of each check and group the latest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hangtop.inside import results
from hangtop.inside.results import CheckResult, latest, publish


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    results._latest.clear()
    yield
    results._latest.clear()


def put(check: str, ranks: list[int], summary: str = "") -> None:
    publish(CheckResult(check, ranks, summary), speaks=False)


def kept() -> list[tuple[str, list[int], str]]:
    return [(one.check, list(one.ranks), one.summary) for one in latest()]


def test_what_one_group_found_stays_when_another_made_the_same_check() -> None:
    put("same", [0, 2], "differ")
    put("same", [0, 1], "equal")
    put("barrier", [0, 2], "came")
    assert kept() == [("same", [0, 2], "differ"), ("same", [0, 1], "equal"), ("barrier", [0, 2], "came")]


def test_the_same_group_or_one_that_holds_it_takes_the_last_one_back() -> None:
    put("same", [0, 2], "differ")
    put("same", [], "could not be made")
    put("same", [0, 2], "equal")
    assert kept() == [("same", [0, 2], "equal")]
    put("same", [0, 1, 2, 3], "all equal")
    assert kept() == [("same", [0, 1, 2, 3], "all equal")]
