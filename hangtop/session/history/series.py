"""One figure over time at three grains, each a ring: what is old is known more coarsely, and never takes more room."""

from __future__ import annotations

from array import array
from math import floor, isfinite, nan
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
        place = number % self.cells
        if last is None or number > last:
            if last is not None:
                self._pass_over(last, number)
            self.last, self._count = number, 1
            self._low[place] = self._mean[place] = self._high[place] = value
        elif number == last:
            self._count += 1
            self._low[place] = min(self._low[place], value)
            self._mean[place] += (value - self._mean[place]) / self._count
            self._high[place] = max(self._high[place], value)

    def _pass_over(self, last: int, number: int) -> None:
        """What lies between two cells was not seen, but for a moment in which the last value held."""
        between = number - last - 1
        held = between * self.seconds < HOLD
        for each in range(number - min(between, self.cells), number):
            for column in (self._low, self._mean, self._high):
                column[each % self.cells] = column[last % self.cells] if held else nan

    @property
    def since(self) -> float:
        """The time from which on cells are held, seen or not."""
        return 0.0 if self.last is None else (self.last - self.cells + 1.0) * self.seconds

    def span(self, start: float, seconds: float) -> Span | None:
        """The cells from a time on together, one at least; None where nothing was seen."""
        last, begin = self.last, floor(start / self.seconds + 1e-9)
        if last is None:
            return None
        end = min(max(begin + 1, floor((start + seconds) / self.seconds + 1e-9)), last + 1)
        places = [number % self.cells for number in range(max(begin, last - self.cells + 1), end)]
        seen = [place for place in places if self._mean[place] == self._mean[place]]  # not nan
        if not seen:
            return None
        mean = sum(self._mean[place] for place in seen) / len(seen)
        return Span(min(self._low[place] for place in seen), mean, max(self._high[place] for place in seen))


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
            for grain in self.grains:
                grain.add(at, value)

    def spans(self, begin: float, step: float, count: int) -> list[Span | None]:
        """``count`` stretches of ``step`` seconds from ``begin`` on; each None where nothing was seen.

        Each is read at the coarsest grain that is no coarser than needed and still reaches back so far.
        """
        if self.grains[0].last is None:
            return [None] * count
        fit = [grain for grain in reversed(self.grains) if grain.seconds <= step]
        reach = [(grain, grain.since) for grain in (*fit, *self.grains)]
        found: list[Span | None] = []
        for start in (begin + number * step for number in range(count)):
            grain = next((grain for grain, since in reach if since <= start), self.grains[-1])
            found.append(grain.span(start, step))
        return found

    def at(self, moment: float) -> float | None:
        """The mean of the finest cell that holds a moment; None where nothing was seen."""
        grain = next((grain for grain in self.grains if grain.since <= moment), self.grains[-1])
        found = grain.span(moment, 0.0)
        return None if found is None else found.mean
