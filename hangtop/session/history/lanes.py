"""When each rank moved: a ring of cells a rank, each of so many seconds, for an hour."""

from __future__ import annotations

from math import floor
from typing import TypeAlias

MOVED, STILL, UNSEEN = 2, 1, 0
"""What a cell holds: of several looks in one cell the largest counts."""
Key: TypeAlias = tuple[str, int]
"""Node and pid of a rank."""


class Lane:
    """Cells of one rank in a ring; a cell is named by its number since the epoch."""

    __slots__ = ("_cells", "_last", "seconds", "since")

    def __init__(self, seconds: int, cells: int) -> None:
        """Hold ``cells`` cells of so many seconds."""
        self.seconds = seconds
        self._cells = bytearray(cells)
        self._last: int | None = None
        """Number of the newest cell; None before the first."""
        self.since: float | None = None
        """Since when the rank has stood still; None while it moves."""

    def put(self, at: float, value: int, hold: float) -> None:
        """Take what was seen at ``at``; it also holds for the ``hold`` seconds before, where nothing was seen."""
        number, cells = floor(at / self.seconds), len(self._cells)
        last = number - 1 if self._last is None else self._last
        if number < last:
            return
        if number > last:
            between = number - last - 1
            fill = value if between * self.seconds <= hold else UNSEEN
            for each in range(number - min(between, cells), number):
                self._cells[each % cells] = fill
            self._cells[number % cells] = UNSEEN
        self._cells[number % cells] = max(self._cells[number % cells], value)
        self._last = number

    def lower(self, after: float) -> None:
        """What was taken for motion after this time was none, as is known by now."""
        last, cells = self._last, len(self._cells)
        if last is None:
            return
        for number in range(max(floor(after / self.seconds) + 1, last - cells + 1), last + 1):
            if self._cells[number % cells] == MOVED:
                self._cells[number % cells] = STILL

    def value(self, number: int) -> int:
        """What a cell holds."""
        last, cells = self._last, len(self._cells)
        return self._cells[number % cells] if last is not None and last - cells < number <= last else UNSEEN

    def cells(self, end: float, step: float, count: int) -> list[int]:
        """The most that was seen in each of ``count`` spans of ``step`` seconds, the last of which ends at ``end``."""
        found = []
        for back in range(count, 0, -1):
            begin = end - back * step
            first = floor(begin / self.seconds + 1e-9)
            behind = max(first + 1, floor((begin + step) / self.seconds + 1e-9))
            found.append(max(self.value(number) for number in range(first, behind)))
        return found

    def stopped(self, at: float) -> float | None:
        """Since when the rank stood still as of ``at``; None where it moved then, or nothing is known of it."""
        if self.since is not None and self.since <= at:
            return self.since
        newest = floor(at / self.seconds + 1e-9) - 1
        if self.value(newest) != STILL:
            return None
        for number in range(newest, newest - len(self._cells), -1):
            if self.value(number) == MOVED:
                return (number + 1.0) * self.seconds
        return None
