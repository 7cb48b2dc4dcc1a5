"""How far a node's clock is from ours, from nothing but when its ticks arrive."""

from __future__ import annotations

WINDOW = 60
"""Answers after which an old best is forgotten, so that drift and a corrected clock are followed."""
SAME = 0.05
"""Seconds: a clock this near is taken as ours, which spares every sample a shift."""


class ClockOffset:
    """Minimum-delay filter.

    An answer stamped ``clock`` there that arrives at ``arrived`` here shows ``clock - arrived``: the offset less the
    delay of its way. The largest of them is the one with the least delay, and nearest to the truth. Answers come in
    the order in which they were made: one stamped earlier than the one before shows that the clock was set back.
    """

    __slots__ = ("_best", "_count", "_last", "_previous")

    def __init__(self) -> None:
        self._best: float | None = None
        self._previous: float | None = None
        self._last: float | None = None
        self._count = 0

    def learn(self, clock: float, arrived: float) -> float:
        """Take one answer and return the offset: seconds that the node's clock is ahead of ours.

        The same answer may be taken again.
        """
        shown = clock - arrived
        if self._last is not None and clock < self._last:
            self._best = self._previous = None
            self._count = 0
        again, self._last = clock == self._last, clock
        if self._best is None or shown > self._best:
            self._best = shown
        self._count += not again
        best = self._best if self._previous is None else max(self._best, self._previous)
        if self._count >= WINDOW:
            self._previous, self._best, self._count = self._best, None, 0
        return best


def shift_of(offset: float | None) -> float:
    """Seconds to take from the node's times to bring them onto our clock."""
    return 0.0 if offset is None or -SAME < offset < SAME else offset
