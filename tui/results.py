"""Answers that were asked for in this session: kept, so that one that was closed can be read again."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tui.widgets.lines import Content

KEPT = 50
"""Answers that are kept, the newest ones."""


class Result(NamedTuple):
    """An answer as it was shown."""

    at: float
    """Seconds since the epoch."""
    title: str
    content: Content


class Results:
    """The answers of a session."""

    def __init__(self) -> None:
        self._all: deque[Result] = deque(maxlen=KEPT)

    def keep(self, result: Result) -> None:
        """Keep one more; the oldest is forgotten."""
        self._all.append(result)

    def newest_first(self) -> list[Result]:
        """All that are kept."""
        return list(reversed(self._all))
