"""Tests on real nodes run where root may make namespaces, and say why where it may not."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.support.batches import Batches
from tests.support.cluster import missing_rights
from tests.support.faulty import Nurseries, nurseries


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test on real nodes where none can be made."""
    if item.get_closest_marker("nodes") is not None and (reason := missing_rights()):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Forget the answer on which a test failed, so that its next try is one."""
    report = yield
    if report.failed:
        funcargs: dict[str, Any] = getattr(item, "funcargs", {})
        for value in funcargs.values():
            if isinstance(value, Batches):
                value.forget()
    return report


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nurseries]:
    """Two nodes on which jobs with real ranks start in a moment; for all modules that leave the nodes as they were."""
    with nurseries() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def early(request: pytest.FixtureRequest) -> None:
    """Start the nurseries with the first test on nodes: torch is loaded by the time that one needs it."""
    if not missing_rights() and any("nursery" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("nursery")
