"""What the others have: the middle of all values but one's own, for thousands of peers at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def median_without(ordered: Sequence[float], own: float) -> float:
    """Median of sorted values without one that is ``own``; of two middle ones the mean. Needs two values or more."""
    place, rest = bisect_left(ordered, own), len(ordered) - 1

    def other(index: int) -> float:
        return ordered[index if index < place else index + 1]

    half = rest // 2
    return other(half) if rest % 2 else (other(half - 1) + other(half)) / 2
