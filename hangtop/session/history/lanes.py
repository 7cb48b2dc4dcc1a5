"""What each rank and each GPU did: a byte a cell, a second each for two minutes, ten seconds each for an hour.

Of a job of thousands twenty seconds each for an hour, and no seconds.
"""

from __future__ import annotations

from math import floor

UNSEEN = 255
"""A cell of which nothing is known; others hold 0 to :data:`FULL`."""
FULL = 250


class Lane:
    """Cells of one thing, so many seconds each, in a ring. A cell holds the most that was seen in it."""

    __slots__ = ("_bytes", "last", "seconds")

    def __init__(self, seconds: int, cells: int) -> None:
        """Hold ``cells`` cells of so many seconds each."""
        self.seconds = seconds
        self.last: int | None = None
        """Number of the newest cell since the epoch; None before the first."""
        self._bytes = bytearray([UNSEEN]) * cells

    def put(self, at: float, value: int, hold: float = 3.0) -> None:
        """Take what was seen up to ``at``; it also holds for the ``hold`` seconds before, where nothing was seen."""
        number, last, cells = floor(at / self.seconds), self.last, len(self._bytes)
        if last is None:
            last = number - 1
        if number < last:
            return
        if number == last:
            known = self._bytes[number % cells]
            self._bytes[number % cells] = value if known == UNSEEN else max(known, value)
            return
        between = number - last - 1
        fill = value if between * self.seconds <= hold else UNSEEN
        for each in range(number - min(between, cells), number):
            self._bytes[each % cells] = fill
        self._bytes[number % cells] = value
        self.last = number

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        if self.last is None:
            return
        cells = len(self._bytes)
        for number in range(max(floor(after / self.seconds) + 1, self.last - cells + 1), self.last + 1):
            if self._bytes[number % cells] not in {UNSEEN, value}:
                self._bytes[number % cells] = value

    def value(self, number: int) -> int:
        """What a cell holds."""
        last = self.last
        if last is None or not last - len(self._bytes) < number <= last:
            return UNSEEN
        return self._bytes[number % len(self._bytes)]

    def most(self, begin: float, seconds: float) -> int:
        """The most that was seen in so many seconds from ``begin`` on."""
        first = floor(begin / self.seconds + 1e-9)
        end = max(first + 1, floor((begin + seconds) / self.seconds + 1e-9))
        seen = [value for number in range(first, end) if (value := self.value(number)) != UNSEEN]
        return max(seen, default=UNSEEN)

    def reaches(self, at: float) -> bool:
        """True where a time is among the cells."""
        return self.last is not None and floor(at / self.seconds) > self.last - len(self._bytes)

    def last_over(self, value: int, until: float) -> float | None:
        """End of the newest cell up to ``until`` that holds more than ``value``; None where there is none."""
        if self.last is None:
            return None
        top = min(self.last, floor(until / self.seconds))
        for number in range(top, self.last - len(self._bytes), -1):
            if value < self.value(number) != UNSEEN:
                return min(until, (number + 1.0) * self.seconds)
        return None


class Lanes:
    """One thing at both grains; the fine one only where the job is small enough, and else the coarse one coarser."""

    __slots__ = ("coarse", "fine", "since")

    def __init__(self, *, fine: bool = True) -> None:
        self.fine = Lane(1, 120) if fine else None
        self.coarse = Lane(10, 360) if fine else Lane(20, 180)
        self.since: float | None = None
        """Since when it has stood still; None while it moves, and for what does not move by itself."""

    def put(self, at: float, value: int, hold: float) -> None:
        """Take what was seen up to ``at``."""
        if self.fine is not None:
            self.fine.put(at, value, hold)
        self.coarse.put(at, value, hold)

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        for lane in (self.fine, self.coarse):
            if lane is not None:
                lane.lower(after, value)

    def cells(self, end: float, step: float, count: int) -> list[int]:
        """``count`` cells of ``step`` seconds, the last of which ends at ``end``; :data:`UNSEEN` where unknown."""
        found = []
        for back in range(count, 0, -1):
            begin = end - back * step
            fine = self.fine
            lane = fine if fine is not None and (step < self.coarse.seconds or fine.reaches(begin)) else self.coarse
            found.append((lane if lane.reaches(begin) else self.coarse).most(begin, step))
        return found

    def stopped(self, at: float) -> float | None:
        """Since when it stood still as of ``at``; None where it moved then, or nothing is known of it."""
        if self.since is not None and self.since <= at:
            return self.since
        lane = self.fine if self.fine is not None and self.fine.reaches(at) else self.coarse
        return lane.last_over(0, at) if lane.most(at - lane.seconds, lane.seconds) == 0 else None
