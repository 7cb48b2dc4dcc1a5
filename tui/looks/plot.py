"""Lines of a chart as characters: braille, two values and four heights a cell, or blocks, one value and eight."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import TypeAlias

Stretch: TypeAlias = tuple[float, float] | None
"""Least and most of one stretch of time; None where nothing is known."""

BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of the left and the right column of a braille cell, from the bottom up (Unicode block 2800)."""
_BLOCKS = " ▁▂▃▄▅▆▇█"


def braille(stretches: Sequence[Stretch], rows: int, top: float) -> list[str]:
    """Draw a line from 0 to ``top``, two stretches a cell; the first text is the uppermost of ``rows``."""
    cells = [[BRAILLE] * ((len(stretches) + 1) // 2) for _ in range(rows)]
    before: tuple[int, int] | None = None
    for place, stretch in enumerate(stretches):
        if stretch is None:
            before = None
            continue
        low, high = _level(stretch[0], top, 4 * rows), _level(stretch[1], top, 4 * rows)
        # what lies between two values is drawn, so that a step is a line
        first, last = (low, high) if before is None else (min(low, before[1]), max(high, before[0]))
        before = low, high
        for level in range(first, last + 1):
            cells[rows - 1 - level // 4][place // 2] |= _DOTS[place % 2][level % 4]
    return ["".join(map(chr, row)) for row in cells]


def blocks(stretches: Sequence[Stretch], rows: int, top: float) -> list[str]:
    """Draw filled columns from 0 to ``top``, two stretches a cell, for terminals without braille."""
    lines = [""] * rows
    for place in range(0, len(stretches), 2):
        highs = [stretch[1] for stretch in stretches[place : place + 2] if stretch is not None]
        eighths = 1 + _level(max(highs), top, 8 * rows) if highs else 0
        for row in range(rows):
            lines[row] += _BLOCKS[max(0, min(8, eighths - 8 * (rows - 1 - row)))]
    return lines


def _level(value: float, top: float, levels: int) -> int:
    """Which of so many heights a value has."""
    return max(0, min(levels - 1, int(value / top * (levels - 1) + 0.5))) if top > 0 else 0


def rounded_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: the top of a scale that does not move all the time."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * power >= value * (1 - 1e-9))
