"""Tests on real nodes run where root may make namespaces, and say why where it may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import missing_rights
from tests.support.faulty import Nurseries, nurseries


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test on real nodes where none can be made."""
    if item.get_closest_marker("nodes") is not None and (reason := missing_rights()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nurseries]:
    """Two nodes on which jobs with real ranks start in a moment; for all modules that leave the nodes as they were."""
    with nurseries() as made:
        yield made
