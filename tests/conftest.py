"""For all tests: slowness is no failure, and real machines are used by one test at a time."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("hangtop", deadline=None)
settings.load_profile("hangtop")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests with real nodes or ranks in one worker: they wait for clocks, and would disturb one another.

    They get one more try, for a machine that stands still for ten seconds is no fault of the code.
    """
    for item in items:
        if item.get_closest_marker("nodes") is not None or item.get_closest_marker("torch") is not None:
            item.add_marker(pytest.mark.xdist_group("machines"))
            item.add_marker(pytest.mark.flaky(reruns=1))
