"""Lines of a chart as characters: braille, two values and four heights a cell, or blocks, one value and eight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

Stretch: TypeAlias = tuple[float, float] | None
"""Least and most of one stretch of time; None where nothing is known."""

Drawn: TypeAlias = tuple[int, int] | None
"""Least and most height of a stretch that was drawn; None where there was none."""

PART = 32
"""Stretches that are drawn together: an even number, as two make a cell."""
BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of the left and the right column of a braille cell, from the bottom up (Unicode block 2800)."""
_BLOCKS = " ▁▂▃▄▅▆▇█"


def braille(stretches: Sequence[Stretch], rows: int, top: float) -> list[str]:
    """Draw a line from 0 to ``top``, two stretches a cell; the first text is the uppermost of ``rows``.

    Of a chart that is drawn every second nearly all is as it was: only parts with something new are made anew.
    """
    scale = (4 * rows - 1) / top if top > 0 else 0.0
    before: Drawn = None
    lines = [""] * rows
    for start in range(0, len(stretches), PART):
        part, before = _braille_part(tuple(stretches[start : start + PART]), before, rows, scale)
        lines = [line + more for line, more in zip(lines, part, strict=True)]
    return lines


@lru_cache(maxsize=64)
def _braille_part(
    stretches: tuple[Stretch, ...], before: Drawn, rows: int, scale: float
) -> tuple[tuple[str, ...], Drawn]:
    """The lines of some stretches, and where the last of them was; ``before`` is where the line comes from."""
    width, levels = (len(stretches) + 1) // 2, 4 * rows
    cells = [[BRAILLE] * width for _ in range(rows)]
    for place, stretch in enumerate(stretches):
        if stretch is None:
            before = None
            continue
        low, high = int(stretch[0] * scale + 0.5), int(stretch[1] * scale + 0.5)
        low, high = (max(0, min(levels - 1, low)), max(0, min(levels - 1, high)))
        drawn = low, high
        if before is not None:  # what lies between two values is drawn, so that a step is a line
            drawn = min(low, before[1]), max(high, before[0])
        before = low, high
        column, bits = place // 2, _DOTS[place % 2]
        for level in range(drawn[0], drawn[1] + 1):
            cells[rows - 1 - level // 4][column] |= bits[level % 4]
    return tuple("".join(map(chr, row)) for row in cells), before


def blocks(stretches: Sequence[Stretch], rows: int, top: float) -> list[str]:
    """Draw filled columns from 0 to ``top``, two stretches a cell, for terminals without braille."""
    lines = [""] * rows
    for place in range(0, len(stretches), 2):
        highs = [stretch[1] for stretch in stretches[place : place + 2] if stretch is not None]
        if not highs:
            lines = [line + " " for line in lines]
            continue
        eighths = 1 + _level(max(highs), top, 8 * rows)
        for row in range(rows):
            lines[row] += _BLOCKS[max(0, min(8, eighths - 8 * (rows - 1 - row)))]
    return lines


def _level(value: float, top: float, levels: int) -> int:
    """Which of so many heights a value has."""
    return max(0, min(levels - 1, round(value / top * (levels - 1)))) if top > 0 else 0


def rounded_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: the top of a scale that does not move all the time."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))
