"""What each rank did: a byte a cell, a second each for two minutes, ten seconds each for an hour.

Of a job of thousands twenty seconds each for an hour, and no seconds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import floor
from typing import TypeAlias

UNSEEN = 255
"""A cell of which nothing is known; others hold 0 to :data:`FULL`."""
FULL = 250
Key: TypeAlias = tuple[str, int]
"""Node and pid of a rank."""


class Lane:
    """Cells of one thing, so many seconds each, in a ring. A cell holds the most that was seen in it."""

    __slots__ = ("_cells", "last", "seconds")

    def __init__(self, seconds: int, cells: int) -> None:
        """Hold ``cells`` cells of so many seconds."""
        self.seconds = seconds
        self._cells = bytearray([UNSEEN]) * cells
        self.last: int | None = None
        """Number of the newest cell since the epoch; None before the first."""

    def put(self, at: float, value: int, hold: float = 3.0) -> None:
        """Take what was seen up to ``at``; it also holds for the ``hold`` seconds before, where nothing was seen."""
        number, last, held = floor(at / self.seconds), self.last, self._cells
        cells = len(held)
        if last is None:
            last = number - 1
        if number < last:
            return
        if number == last:
            known = held[number % cells]
            held[number % cells] = value if known == UNSEEN else max(known, value)
            return
        between = number - last - 1
        fill = value if between * self.seconds <= hold else UNSEEN
        for each in range(number - min(between, cells), number):
            held[each % cells] = fill
        held[number % cells] = value
        self.last = number

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        last = self.last
        if last is None:
            return
        held = self._cells
        cells = len(held)
        for number in range(max(floor(after / self.seconds) + 1, last - cells + 1), last + 1):
            if held[number % cells] not in {UNSEEN, value}:
                held[number % cells] = value

    def value(self, number: int) -> int:
        """What a cell holds."""
        last, cells = self.last, len(self._cells)
        if last is None or not last - cells < number <= last:
            return UNSEEN
        return self._cells[number % cells]

    def row(self, end: float, step: float, count: int) -> list[int]:
        """The most that was seen in each of ``count`` spans of ``step`` seconds, the last of which ends at ``end``."""
        last, held, seconds = self.last, self._cells, self.seconds
        if last is None:
            return [UNSEEN] * count
        oldest = last - len(held) + 1
        split = oldest % len(held)
        aged, found = held[split:] + held[:split], []
        for back in range(count, 0, -1):
            begin = end - back * step
            first = floor(begin / seconds + 1e-9) - oldest
            behind = max(first + 1, floor((begin + step) / seconds + 1e-9) - oldest)
            span = aged[max(0, first) : max(0, behind)]
            found.append(max((each for each in span if each != UNSEEN), default=UNSEEN))
        return found

    def reaches(self, at: float) -> bool:
        """True where a time is among the cells."""
        last = self.last
        return last is not None and floor(at / self.seconds) > last - len(self._cells)

    def last_over(self, value: int, until: float) -> float | None:
        """End of the newest cell up to ``until`` that holds more than ``value``; None where there is none."""
        last = self.last
        if last is None:
            return None
        top = min(last, floor(until / self.seconds))
        for number in range(top, last - len(self._cells), -1):
            if value < self.value(number) != UNSEEN:
                return min(until, (number + 1.0) * self.seconds)
        return None


class Lanes:
    """One thing at both grains; the fine one only where the job is small enough, and else the coarse one coarser."""

    __slots__ = ("coarse", "fine", "since")

    def __init__(self, *, fine: bool = True) -> None:
        self.fine = Lane(1, 120) if fine else None
        """By the second."""
        self.coarse = Lane(10, 360) if fine else Lane(20, 180)
        """The whole hour."""
        self.since: float | None = None
        """Since when it has stood still; None while it moves, and for what does not move by itself."""

    def put(self, at: float, value: int, hold: float) -> None:
        """Take what was seen up to ``at``."""
        for lane in (self.fine, self.coarse):
            if lane is not None:
                lane.put(at, value, hold)

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        for lane in (self.fine, self.coarse):
            if lane is not None:
                lane.lower(after, value)

    def cells(self, end: float, step: float, count: int) -> list[int]:
        """``count`` cells of ``step`` seconds, the last of which ends at ``end``; ``UNSEEN`` where unknown."""
        fine, coarse = self.fine, self.coarse
        older = 0
        while older < count and (fine is None or not fine.reaches(end - (count - older) * step)):
            older += 1
        found = coarse.row(end - (count - older) * step, step, older) if older else []
        return found if fine is None or older == count else found + fine.row(end, step, count - older)

    def stopped(self, at: float) -> float | None:
        """Since when it stood still as of ``at``; None where it moved then, or nothing is known of it."""
        since, fine = self.since, self.fine
        if since is not None and since <= at:
            return since
        lane = fine if fine is not None and fine.reaches(at) else self.coarse
        return lane.last_over(0, at) if lane.value(floor(at / lane.seconds + 1e-9) - 1) == 0 else None


class JobLanes(dict[Key, Lanes]):
    """Lanes of all ranks."""

    def find(self, node: str, thing: int) -> Lanes | None:
        """Lanes of one thing of a node; None where nothing is known of it."""
        return self.get((node, thing))

    def made(self, node: str, thing: int, *, fine: bool) -> Lanes:
        """Lanes of one thing, new where there were none."""
        found = self.get((node, thing))
        if found is None:
            found = self[node, thing] = Lanes(fine=fine)
        return found

    def keep(self, there: Mapping[str, Container[int]]) -> None:
        """Drop what is not there any more."""
        for node, thing in [*self]:
            if thing not in there.get(node, ()):
                del self[node, thing]
