"""When each rank moved: a ring of cells a rank, each of two seconds, for half an hour."""

from __future__ import annotations

from math import floor
from typing import TypeAlias

MOVED, STILL, UNSEEN = 2, 1, 0
"""What a cell holds: of several looks in one cell the largest counts."""
SECONDS, CELLS = 2, 900
Key: TypeAlias = tuple[str, int]
"""Node and pid of a rank."""


class Lane:
    """Cells of one rank in a ring; a cell is named by its number since the epoch."""

    __slots__ = ("_cells", "_last", "since")

    def __init__(self) -> None:
        self._cells = bytearray(CELLS)
        self._last = -1
        """Number of the newest cell."""
        self.since: float | None = None
        """Since when the rank has stood still; None while it moves."""

    def put(self, at: float, value: int, hold: float) -> None:
        """Take what was seen at ``at``; it also holds for the ``hold`` seconds before, where nothing was seen."""
        number, last = floor(at / SECONDS), self._last
        if number < last:
            return
        if number > last:
            between = number - last - 1
            fill = value if between * SECONDS <= hold else UNSEEN
            for each in range(number - min(between, CELLS), number):
                self._cells[each % CELLS] = fill
            self._cells[number % CELLS] = UNSEEN
        self._cells[number % CELLS] = max(self._cells[number % CELLS], value)
        self._last = number

    def lower(self, after: float) -> None:
        """What was taken for motion after this time was none, as is known by now."""
        for number in range(max(floor(after / SECONDS) + 1, self._last - CELLS + 1, 0), self._last + 1):
            self._cells[number % CELLS] = min(self._cells[number % CELLS], STILL)

    def value(self, number: int) -> int:
        """What a cell holds."""
        return self._cells[number % CELLS] if self._last - CELLS < number <= self._last else UNSEEN

    def cells(self, end: float, count: int) -> list[int]:
        """The last ``count`` cells before a time."""
        behind = floor(end / SECONDS + 1e-9)
        return [self.value(number) for number in range(behind - count, behind)]

    def stopped(self, at: float) -> float | None:
        """Since when the rank stood still as of ``at``; None where it moved then, or nothing is known of it."""
        if self.since is not None and self.since <= at:
            return self.since
        newest = floor(at / SECONDS + 1e-9) - 1
        if self.value(newest) == STILL:
            for number in range(newest, newest - CELLS, -1):
                if self.value(number) == MOVED:
                    return (number + 1.0) * SECONDS
        return None
