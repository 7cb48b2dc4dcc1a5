"""For all tests: slowness is no failure, and real machines are used by one test at a time."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest
from hypothesis import settings

from collectors.fleet.via.piped import Piped

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="hangtop-state-")
"""Folder for the pasts of sessions, instead of the user's own state folder."""

settings.register_profile("hangtop", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("hangtop-slow", deadline=None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what runs in its background so, and all that the tests start would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """With ``--slow``, property tests try more examples."""
    settings.load_profile("hangtop-slow" if config.getoption("--slow") else "hangtop")


def pytest_collection_finish() -> None:
    """Freeze the collected tests: thousands of objects that stay to the end need no garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--slow`` also runs the slow tests."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out unless they are asked for.

    Keep tests that share nodes or ranks in one worker. Those with nodes of their own wait as much as those with jobs on
    the shared ones, and do not disturb them: two workers have something to wait for, each.
    """
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow") is not None]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
    for item in items:
        group = next((name for name in ("nodes", "torch") if item.get_closest_marker(name) is not None), "")
        if "nursery" in getattr(item, "fixturenames", ()):
            group = "nursery"
        if group and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
async def locals_are_closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Close each :class:`Piped` of a test: asyncio warns at exit about a process that outlives its loop."""
    made: list[Piped] = []
    create = Piped.__init__

    def created(self: Piped, *arguments: Any) -> None:
        create(self, *arguments)
        made.append(self)

    monkeypatch.setattr(Piped, "__init__", created)
    yield
    for one in made:
        await one.close()


@pytest.fixture(autouse=True)
def _nothing_outlives_its_loop(request: pytest.FixtureRequest) -> None:
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("locals_are_closed")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Suspend garbage collection while a failure is reported.

    Before 3.11.8 ``ast.parse`` ends in a SystemError, and with it the whole run, if a finalizer that runs within it
    prints a traceback, which parses too (https://github.com/python/cpython/issues/106905).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_on:
            gc.enable()
