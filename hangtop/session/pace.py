"""How often nodes look, when this machine cannot read in a second what they say in one.

A screen on 2,048 nodes takes most of a core. On a machine that has none to spare, samples would pile up in the sockets,
every number would be older than it says, and keys would wait for all of them. So a session that takes nearly a whole
core, or is given no more while samples come late, asks its nodes to look half as often, and twice as often again once
it has room.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PERIOD = 5.0
"""Seconds over which the CPU is measured."""
BUSY = 0.85
"""Share of a core from which on it is too much, twice in a row: connecting takes it all for a moment."""
LATE = 0.5
"""Seconds that samples lie about on the average before they are read, from which on it is too much, too; …"""
OURS = 0.3
"""… if this process takes that share of a core: with less the network is slow, not this machine."""
ROOM = 0.45
"""Share under which twice as many looks would fit: not all of it is looks."""
SLOWEST = 8
"""Times as long between two looks, at the most: what is older than that is of little use."""


class Pace:
    """Measures this process; ``factor`` is how many times as long as asked for nodes take between two looks."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._cpu = clock, cpu
        self._from = clock(), cpu()
        self._was_busy = False
        self.factor = 1
        self.share = 0.0
        """Share of a core that this process took when it was last measured."""
        self.late = 0.0
        """Seconds that samples lay about then."""

    def begin(self) -> None:
        """Measure from here: what was done until now was other work than reading samples."""
        self._from = self._clock(), self._cpu()
        self._was_busy = False

    def changed(self, late: Callable[[], float]) -> bool:
        """Measure, when it is time to; tell whether ``factor`` is another now.

        ``late`` tells how many seconds samples lie about on the average before they are read.
        """
        now, used = self._clock(), self._cpu()
        passed = now - self._from[0]
        if passed < PERIOD:
            return False
        self.share = (used - self._from[1]) / passed
        self._from = now, used
        self.late = late()
        busy, before = self.share > BUSY or (self.late > LATE and self.share > OURS), self.factor
        if busy and self._was_busy:
            self.factor = min(SLOWEST, self.factor * 2)
        elif self.share < ROOM and not busy:
            self.factor = max(1, self.factor // 2)
        self._was_busy = busy and self.factor == before
        return self.factor != before
