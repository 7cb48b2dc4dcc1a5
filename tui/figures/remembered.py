"""Stretches of a figure that were read before: of what lies back nothing changes, so only the newest are read again."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from hangtop.session.history.series import Span

SETTLED = 12.0
"""Seconds after which a stretch does not change any more: until then a value may be held, or come late."""


class Remembered:
    """Stretches of one figure, by their number since the epoch."""

    def __init__(self) -> None:
        self._step = 0.0
        self._first = 0
        self._spans: list[Span | None] = []

    def spans(
        self, begin: float, step: float, count: int, read: Callable[[float, float, int], list[Span | None]]
    ) -> list[Span | None]:
        """The same as ``read`` gives, whose ``begin`` is a multiple of ``step``."""
        first = round(begin / step)
        sure = len(self._spans) - ceil(SETTLED / step) - 1
        start = first - self._first
        if step != self._step or not 0 <= start <= sure:
            self._spans = read(begin, step, count)
        else:
            kept = self._spans[start:sure][:count]
            self._spans = kept + read((first + len(kept)) * step, step, count - len(kept))
        self._step, self._first = step, first
        return self._spans
