"""One figure over time at three grains, each a ring: what is old is known more coarsely, and never takes more room."""

from __future__ import annotations

from array import array
from math import floor, inf, isfinite, nan
from typing import NamedTuple

GRAINS = ((1, 900), (10, 2160), (60, 10_080))
"""Seconds of a cell, and cells: 15 minutes, 6 hours, 7 days."""
HOLD = 5
"""Seconds for which a value holds when nothing was added: looks come a little later than once a second."""


class Span(NamedTuple):
    """What a figure was in one stretch of time."""

    low: float
    mean: float
    high: float


class Grain:
    """Cells of one grain. A cell is named by its number since the epoch; times before the oldest one are forgotten."""

    __slots__ = ("_count", "_high", "_low", "_mean", "cells", "last", "seconds")

    def __init__(self, seconds: int, cells: int) -> None:
        """Hold ``cells`` cells of so many seconds each."""
        self.seconds, self.cells = seconds, cells
        self.last: int | None = None
        """Number of the newest cell; None before the first value."""
        self._count = 0
        """Values in the newest cell."""
        empty = array("f", [nan])
        self._low, self._mean, self._high = empty * cells, empty * cells, empty * cells

    def add(self, at: float, value: float) -> None:
        """Take a value; one that is older than the newest cell comes too late and is let go."""
        number, last = floor(at / self.seconds), self.last
        if last is not None and number < last:
            return
        place = number % self.cells
        if number != last:
            self._pass_to(number)
            self.last, self._count = number, 1
            self._low[place] = self._mean[place] = self._high[place] = value
            return
        self._count += 1
        self._low[place] = min(self._low[place], value)
        self._mean[place] += (value - self._mean[place]) / self._count
        self._high[place] = max(self._high[place], value)

    def _pass_to(self, number: int) -> None:
        """Go on to another cell: those in between were not seen, but for a moment in which the last value held."""
        last = self.last
        if last is None:
            return
        between = number - last - 1
        held = between * self.seconds < HOLD
        of = last % self.cells
        span = (self._low[of], self._mean[of], self._high[of]) if held else (nan, nan, nan)
        for each in range(number - min(between, self.cells), number):
            place = each % self.cells
            self._low[place], self._mean[place], self._high[place] = span

    @property
    def first(self) -> int | None:
        """Number of the oldest cell that is held, seen or not."""
        return None if self.last is None else self.last - self.cells + 1

    def between(self, begin: int, end: int) -> Span | None:
        """The cells from number ``begin`` up to, not including, ``end`` together; None where nothing was seen."""
        last = self.last
        if last is None:
            return None
        begin, end = max(begin, last - self.cells + 1), min(end, last + 1)
        low, high, total, seen = inf, -inf, 0.0, 0
        for number in range(begin, end):
            place = number % self.cells
            mean = self._mean[place]
            if mean == mean:  # not nan
                low, high = min(low, self._low[place]), max(high, self._high[place])
                total += mean
                seen += 1
        return Span(low, total / seen, high) if seen else None


class Series:
    """One figure of a job."""

    __slots__ = ("grains", "newest")

    def __init__(self) -> None:
        self.grains = tuple(Grain(seconds, cells) for seconds, cells in GRAINS)
        self.newest: float | None = None
        """The value that came last."""

    def add(self, at: float, value: float | None) -> None:
        """Take the value of this moment; None and what is no number are gaps."""
        self.newest = value
        if value is not None and isfinite(value):
            for ring in self.grains:
                ring.add(at, value)

    def spans(self, begin: float, step: float, count: int) -> list[Span | None]:
        """``count`` stretches of ``step`` seconds from ``begin`` on; each None where nothing was seen.

        Each is read at the finest grain that still reaches back so far and is no finer than needed.
        """
        if self.grains[0].last is None:
            return [None] * count
        found: list[Span | None] = []
        reach = [(ring, (ring.first or 0) * ring.seconds) for ring in self.grains]
        fit = [each for each in reversed(reach) if each[0].seconds <= step] or reach[:1]
        for number in range(count):
            start = begin + number * step
            ring = next((ring for ring, since in (*fit, *reach) if since <= start), self.grains[-1])
            first = floor(start / ring.seconds + 1e-9)
            end = max(first + 1, floor((start + step) / ring.seconds + 1e-9))
            found.append(ring.between(first, end))
        return found

    def at(self, moment: float) -> float | None:
        """The mean of the finest cell that holds a moment; None where nothing was seen."""
        for ring in self.grains:
            number = floor(moment / ring.seconds)
            if ring.first is not None and number >= ring.first:
                found = ring.between(number, number + 1)
                return None if found is None else found.mean
        return None
