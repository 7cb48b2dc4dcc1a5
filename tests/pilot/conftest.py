"""The screen in tests: in UTC, with the colours of a terminal that can show them all, never those of the tester's."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Iterator

import pytest

EVERY = 40
"""Tests after which applications that ended are freed: a few megabytes each."""
_ENDED = itertools.count(1)


@pytest.fixture(autouse=True)
def _same_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("NO_COLOR", "TMUX", "TERM_PROGRAM", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _what_ended_is_freed() -> Iterator[None]:
    """Collect garbage now and then: Python goes by counts, in which what an application froze is not."""
    yield
    if next(_ENDED) % EVERY == 0:
        gc.collect()
