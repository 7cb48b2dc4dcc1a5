"""The last looks at what is on the screen: read out of the packed past once, then followed look by look."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from hangtop.diagnosis.job import Look
from hangtop.session.state.time_series import TimeSeries

T = TypeVar("T", bound=NamedTuple)

MOST = 192
"""Things that are followed at once: a few pages. Each takes some ten kilobytes."""
GAP = 1.5
"""Ticks between two looks from which on there may have been others in between."""


class Recent(Generic[T]):
    """TimeSeries of several things by their keys, so many of each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: dict[Hashable, tuple[TimeSeries[T], list[Look[T]]]] = {}

    def of(self, key: Hashable, looks: TimeSeries[T], interval: float) -> Sequence[Look[T]]:
        """Return the latest looks, oldest first, and follow them from now on; ticks are ``interval`` seconds apart."""
        newest = looks.newest
        if newest is None:
            return ()
        whose, known = self._kept.get(key, (None, []))
        if whose is looks:
            gap = looks.at - known[-1].at
            if gap == 0:
                return known
            if 0 < gap < GAP * interval:
                known.append(Look(looks.at, newest))
                del known[: -self._count]
                return known
        known = list(looks[-self._count :])
        self._kept.pop(key, None)
        if len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = looks, known
        return known

    def last(self, key: Hashable, looks: TimeSeries[T]) -> Sequence[Look[T]]:
        """Return the last two looks, or more where they are known: for whoever goes through thousands of rows."""
        whose, known = self._kept.get(key, (None, []))
        return known if whose is looks and known[-1].at == looks.at else looks[-2:]
