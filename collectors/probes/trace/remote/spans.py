"""Time intervals of which only the union counts, in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Iterable, Iterator, List, Tuple

FRESH = 32_768
"""Intervals that wait before they are merged into the rest."""
LIMIT = 262_144
"""Disjoint intervals that are kept, at 16 bytes each."""

Span = Tuple[float, float]


class Spans:
    """A union of intervals that come in any order.

    Above :data:`LIMIT` disjoint intervals the smallest gaps between them are closed; ``closed`` is how much time that
    added to the union, at most.
    """

    __slots__ = ("_ends", "_fresh", "_gap", "_limit", "_starts", "closed")

    def __init__(self, limit: int = LIMIT) -> None:
        self._starts = array("d")
        self._ends = array("d")
        self._fresh: List[Span] = []
        self._limit = max(2, limit)
        self._gap = 0.0
        self.closed = 0.0

    def add(self, start: float, end: float) -> None:
        """Unite with one more interval."""
        self._fresh.append((start, end))
        if len(self._fresh) >= FRESH:
            self._settle()

    def __iter__(self) -> Iterator[Span]:
        """The disjoint intervals in order."""
        self._settle()
        return zip(self._starts, self._ends)  # noqa: B905 (strict came with Python 3.10; here and below)

    def __bool__(self) -> bool:
        return bool(self._fresh) or bool(self._starts)

    def total(self) -> float:
        """Length of the union."""
        self._settle()
        return sum(self._ends) - sum(self._starts)

    def within(self, start: float, end: float) -> Iterator[Span]:
        """The parts of the union between two times."""
        self._settle()
        for place in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            yield max(start, self._starts[place]), min(end, self._ends[place])

    def _settle(self) -> None:
        """Merge what waits; a file that is in order touches only the last intervals."""
        if not self._fresh:
            return
        self._fresh.sort()
        place = max(0, bisect_left(self._starts, self._fresh[0][0]) - 1)
        tail = list(zip(self._starts[place:], self._ends[place:]))  # noqa: B905
        del self._starts[place:], self._ends[place:]
        tail += self._fresh
        tail.sort()
        self._append(tail)
        self._fresh = []
        if len(self._starts) > self._limit:
            self._coarsen()

    def _append(self, ordered: Iterable[Span]) -> None:
        starts, ends, gap = self._starts, self._ends, self._gap
        last = ends[-1] if ends else float("-inf")
        for start, end in ordered:
            if start <= last + gap:
                if start > last:
                    self.closed += start - last
                if end > last:
                    ends[-1] = last = end
            else:
                starts.append(start)
                ends.append(end)
                last = end

    def _coarsen(self) -> None:
        """Close the smaller half of all gaps."""
        gaps = sorted(map(float.__sub__, self._starts[1:], self._ends))
        self._gap = max(self._gap, gaps[len(gaps) // 2])
        spans = list(zip(self._starts, self._ends))  # noqa: B905
        self._starts, self._ends = array("d"), array("d")
        self._append(spans)


def united(parts: Iterable[Iterable[Span]]) -> float:
    """Length of the union of several lists of intervals, each in order; what overlaps counts once."""
    total = 0.0
    last = float("-inf")
    for start, end in sorted(chain.from_iterable(parts)):  # a merge of runs, in C
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
    left.closed += kept.closed
    return left
