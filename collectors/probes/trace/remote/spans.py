"""Time intervals of which only the union counts, in bounded memory."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Iterable, Iterator, List, Sequence, Tuple, Union

FRESH = 32_768
"""Intervals that wait before they are merged into the rest."""
PATIENT = 8
"""How many times more would have to be moved for them to wait longer."""
MOST_FRESH = 262_144
LIMIT = 2_000_000
"""Disjoint intervals that are kept, at 16 bytes each: a trace of some gigabytes."""
IN_ONE_GO = 200_000
"""Intervals that may be sorted as Python's own tuples, which take 120 bytes each."""

Span = Tuple[float, float]


class Spans:
    """A union of intervals that come in any order.

    Above the limit those with the smaller gaps between them are pushed together two by two: their length stays, their
    place is off by the gap. ``moved`` is how much that may be wrong about what overlaps with them, at most.
    """

    __slots__ = ("_ends", "_fresh", "_limit", "_starts", "_wait", "moved")

    def __init__(self, limit: int = LIMIT) -> None:
        self._starts = array("d")
        self._ends = array("d")
        self._fresh: List[Span] = []
        self._wait = FRESH
        self._limit = max(2, limit)
        self.moved = 0.0

    def add(self, start: float, end: float) -> None:
        """Unite with one more interval."""
        self._fresh.append((start, end))
        if len(self._fresh) >= self._wait:
            self._settle(willing=False)

    def __iter__(self) -> Iterator[Span]:
        """The disjoint intervals in order."""
        self._settle()
        return zip(self._starts, self._ends)  # noqa: B905 (strict came with Python 3.10; here and below)

    def __bool__(self) -> bool:
        return bool(self._fresh) or bool(self._starts)

    def __len__(self) -> int:
        self._settle()
        return len(self._starts)

    def total(self) -> float:
        """Length of the union."""
        self._settle()
        return sum(self._ends) - sum(self._starts)

    def within(self, start: float, end: float) -> Iterator[Span]:
        """The parts of the union between two times."""
        self._settle()
        for place in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            yield max(start, self._starts[place]), min(end, self._ends[place])

    def _settle(self, *, willing: bool = True) -> None:
        """Merge what waits; a file that is in order touches only the last intervals."""
        if not self._fresh:
            return
        self._fresh.sort()
        place = max(0, bisect_left(self._starts, self._fresh[0][0]) - 1)
        behind = len(self._starts) - place
        if not willing and behind > PATIENT * len(self._fresh) and len(self._fresh) < MOST_FRESH:
            self._wait = 2 * len(self._fresh)
            return
        tail = zip(self._starts[place:], self._ends[place:])  # noqa: B905
        del self._starts[place:], self._ends[place:]
        self._append(merged([tail, self._fresh], behind + len(self._fresh)))
        self._fresh, self._wait = [], FRESH
        if len(self._starts) > self._limit:
            self._coarsen()

    def _append(self, ordered: Iterable[Span]) -> None:
        starts, ends = self._starts, self._ends
        last = ends[-1] if ends else float("-inf")
        for start, end in ordered:
            if start > last:
                starts.append(start)
                ends.append(end)
                last = end
            elif end > last:
                ends[-1] = last = end

    def _coarsen(self) -> None:
        """Push half of the intervals up to the one before, those that are nearest to it."""
        before = list(map(float.__sub__, self._starts[1:], self._ends))
        usual = sorted(before)[len(before) // 2]
        spans = zip(self._starts[1:], self._ends[1:], before)  # noqa: B905
        starts, ends = self._starts[:1], self._ends[:1]
        pushed = False
        for start, end, gap in spans:
            if gap <= usual and not pushed:
                ends[-1] += end - start
                self.moved += gap
            else:
                starts.append(start)
                ends.append(end)
            pushed = gap <= usual and not pushed
        self._starts, self._ends = starts, ends


def merged(parts: Sequence[Iterable[Span]], size: int) -> Iterable[Span]:
    """Several lists of intervals as one in order: quickly where there are few, with little memory where not."""
    return sorted(chain.from_iterable(parts)) if size <= IN_ONE_GO else heapq.merge(*parts)


def united(parts: Iterable[Union[Spans, List[Span]]]) -> float:
    """Length of the union of several lists of intervals, each in order; what overlaps counts once."""
    several = list(parts)
    total = 0.0
    last = float("-inf")
    for start, end in merged(several, sum(map(len, several))):
        if end > last:
            total += end - max(start, last)
            last = end
    return total


def outside(kept: Spans, taken: Spans) -> Spans:
    """The parts of one union that are not in another; the first itself where the other is empty."""
    if not taken:
        return kept
    left = Spans()
    holes = iter(taken)
    hole = next(holes, None)
    for begin, end in kept:
        start = begin
        while hole is not None and hole[1] <= start:
            hole = next(holes, None)
        while hole is not None and hole[0] < end:
            if hole[0] > start:
                left.add(start, hole[0])
            start = min(end, hole[1])
            if hole[1] > end:
                break
            hole = next(holes, None)
        if start < end:
            left.add(start, end)
    left.moved += kept.moved
    return left
