"""The fields of log events, each checked for its type: a field may hold anything."""

from __future__ import annotations

from math import isfinite

from collectors.samples import MOST_RANK, Value
from collectors.samples.logs import LogEvent

_OF_RANKS = frozenset("rank group_rank failed_rank peer size expected group_ranks lagging missing ready tasks".split())
"""Fields that number or count ranks: a value beyond the largest possible rank counts as absent."""


def text_of(event: LogEvent, name: str) -> str:
    """Return a field of an event as text; empty when it is not there."""
    value = event.data.get(name)
    return value if isinstance(value, str) else ""


def number_of(event: LogEvent, name: str) -> int | None:
    """Return a field of an event as a whole number; None when it is not there."""
    value = event.data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return int(value) if _may_be(name, value) else None


def numbers_of(event: LogEvent, name: str) -> tuple[int, ...]:
    """Return a field of an event as whole numbers; empty when it is not there."""
    value: Value = event.data.get(name)
    items = value if isinstance(value, list) else ()
    return tuple(item for item in items if isinstance(item, int) and _may_be(name, item))


def words_of(event: LogEvent, name: str) -> tuple[str, ...]:
    """Return a field of an event as texts; empty when it is not there."""
    value: Value = event.data.get(name)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def when(event: LogEvent) -> float | None:
    """Return an event's time, else the lower bound from the lines before it."""
    if event.at is not None:
        return event.at
    after = event.data.get("after")
    return float(after) if isinstance(after, (int, float)) and isfinite(after) else None


def _may_be(name: str, value: float) -> bool:
    return name not in _OF_RANKS or -1 <= value <= MOST_RANK
