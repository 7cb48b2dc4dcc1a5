"""What each rank and each GPU did: a byte a cell, a second each for two minutes, ten seconds each for an hour.

Of a job of thousands twenty seconds each for an hour, and no seconds.
"""

from __future__ import annotations

from array import array
from math import floor

UNSEEN = 255
"""A cell of which nothing is known; others hold 0 to :data:`FULL`."""
FULL = 250
NEVER = -(1 << 62)


class LaneCells:
    """Lanes of the cells of several things, side by side: of 16,384 ranks each object of its own would be felt."""

    __slots__ = ("bytes", "cells", "lasts", "seconds")

    def __init__(self, seconds: int, cells: int) -> None:
        """Hold ``cells`` cells of so many seconds of each thing."""
        self.seconds = seconds
        self.cells = cells
        self.bytes = bytearray()
        self.lasts = array("q")
        """Number of each one's newest cell since the epoch; :data:`NEVER` before the first."""

    def add(self) -> Lane:
        """One more thing."""
        self.bytes += bytes([UNSEEN]) * self.cells
        self.lasts.append(NEVER)
        return Lane(self, len(self.lasts) - 1)

    def drop(self, place: int) -> None:
        """Drop a thing: those behind it come one place nearer."""
        del self.bytes[place * self.cells : (place + 1) * self.cells]
        del self.lasts[place]


class Lane:
    """Cells of one thing, so many seconds each, in a ring. A cell holds the most that was seen in it.

    Made when it is asked for, and good until a thing of its grid is dropped.
    """

    __slots__ = ("_first", "_grid", "_place")

    def __init__(self, grid: LaneCells, place: int) -> None:
        """Take the thing at this place of a grid."""
        self._grid = grid
        self._place = place
        self._first = place * grid.cells

    @property
    def seconds(self) -> int:
        """Of a cell."""
        return self._grid.seconds

    @property
    def last(self) -> int | None:
        """Number of the newest cell since the epoch; None before the first."""
        last = self._grid.lasts[self._place]
        return None if last == NEVER else last

    def put(self, at: float, value: int, hold: float = 3.0) -> None:
        """Take what was seen up to ``at``; it also holds for the ``hold`` seconds before, where nothing was seen."""
        grid, first = self._grid, self._first
        number, last, cells, held = floor(at / grid.seconds), self.last, grid.cells, grid.bytes
        if last is None:
            last = number - 1
        if number < last:
            return
        if number == last:
            known = held[first + number % cells]
            held[first + number % cells] = value if known == UNSEEN else max(known, value)
            return
        between = number - last - 1
        fill = value if between * grid.seconds <= hold else UNSEEN
        for each in range(number - min(between, cells), number):
            held[first + each % cells] = fill
        held[first + number % cells] = value
        grid.lasts[self._place] = number

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        last = self.last
        if last is None:
            return
        cells, first, held = self._grid.cells, self._first, self._grid.bytes
        for number in range(max(floor(after / self.seconds) + 1, last - cells + 1), last + 1):
            if held[first + number % cells] not in {UNSEEN, value}:
                held[first + number % cells] = value

    def value(self, number: int) -> int:
        """What a cell holds."""
        last, cells = self.last, self._grid.cells
        if last is None or not last - cells < number <= last:
            return UNSEEN
        return self._grid.bytes[self._first + number % cells]

    def row(self, end: float, step: float, count: int) -> list[int]:
        """The most that was seen in each of ``count`` spans of ``step`` seconds, the last of which ends at ``end``."""
        last, cells, seconds, start = self.last, self._grid.cells, self._grid.seconds, self._first
        if last is None:
            return [UNSEEN] * count
        held, oldest = self._grid.bytes, last - cells + 1
        split = start + oldest % cells
        aged = held[split : start + cells] + held[start:split]
        first = floor((end - count * step) / seconds + 1e-9) - oldest
        if step == seconds:
            before = min(count, max(0, -first))
            known = aged[first + before : max(0, first + count)] if before < count else b""
            return [UNSEEN] * before + [*known] + [UNSEEN] * (count - before - len(known))
        whole = int(step // seconds)
        behind = first + count * whole
        if whole * seconds == step and first >= 0 and behind < cells + whole:
            # all at once, as each frame draws some dozen rows; cells that are still to come count as the least
            known = aged + bytes(max(0, behind - cells))
            found = [
                max(span) for span in zip(*(known[first + at : behind : whole] for at in range(whole)), strict=True)
            ]
            if UNSEEN not in found:
                return found
        found = []
        for back in range(count, 0, -1):
            begin = end - back * step
            first = floor(begin / seconds + 1e-9) - oldest
            span = aged[max(0, first) : max(0, first + 1, floor((begin + step) / seconds + 1e-9) - oldest)]
            most = max(span, default=UNSEEN)
            # an unseen cell counts as more than any other: then it is looked at once more, without those
            found.append(most if most != UNSEEN else max((each for each in span if each != UNSEEN), default=UNSEEN))
        return found

    def reaches(self, at: float) -> bool:
        """True where a time is among the cells."""
        last = self.last
        return last is not None and floor(at / self.seconds) > last - self._grid.cells

    def last_over(self, value: int, until: float) -> float | None:
        """End of the newest cell up to ``until`` that holds more than ``value``; None where there is none."""
        last = self.last
        if last is None:
            return None
        top = min(last, floor(until / self.seconds))
        for number in range(top, last - self._grid.cells, -1):
            if value < self.value(number) != UNSEEN:
                return min(until, (number + 1.0) * self.seconds)
        return None
