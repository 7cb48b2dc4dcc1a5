"""How the overview shares its lines: what tells most gets its room first."""

from __future__ import annotations

from typing import NamedTuple

FEW = 16
"""Nodes up to which each rank has a line of its own."""
BESIDE = 110
"""Cells from which on ranks and what happened stand beside each other."""
WIDE = 150
"""Cells from which on what happened stands beside the heat map of a larger job."""


class Shares(NamedTuple):
    """Lines of each part; 0 leaves it out."""

    time: int
    heat: int
    """At most; what it does not need goes to what is below."""
    onset: int
    """Lines of the ranks where they stand above what happened; where they stand beside it, as many as are left."""
    beside: bool
    """Ranks and what happened, or those and the heat map, stand side by side."""


def shares(width: int, height: int, nodes: int) -> Shares:
    """Share ``height`` lines of ``width`` cells among the line of time, the heat map, the ranks and what happened."""
    few = nodes <= FEW
    time = next((lines for lines, least in ((16, 42), (12, 30), (8, 25), (3, 15)) if height >= least), 0)
    left = height - time
    if not few:
        beside = width >= WIDE
        return Shares(time, left if beside else max(3, min(left * 3 // 4, left - 6)), 0, beside)
    beside = width >= BESIDE
    below = max(5, left * 2 // 5)
    onset = 1 if beside else (below + 4 if left >= 28 else 0)
    if onset and not beside:
        below += onset
    return Shares(time, max(3, left - below), onset, beside)
