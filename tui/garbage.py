"""When Python may look for reference cycles: never at length while somebody types.

A large job's state is millions of small tuples, and a full collection looks at each of them: 60 ms for 512 ranks, more
than half a second for 16,384. Python's own rhythm is no help: it counts what was made less what was freed, and where
every new look takes the place of an old one that stays near nothing, while the young that were never looked at gather,
until one "quick" collection of them takes 50 ms. So here the young are looked at twenty times a second, two thousand at
a time; who survives is put out of sight at once, and looked at again when nobody has pressed a key for a while. What is
no cycle is freed at once in any case.
"""

from __future__ import annotations

import gc
import time

TURN = 0.05
"""Seconds between two collections of the young: for 16,384 ranks that all move, two milliseconds each."""
SPATE = 100_000
"""Objects that may be made between two turns before Python collects them by itself."""
NEVER = 1 << 30
REST = 60.0
"""Seconds without a key after which a full collection disturbs nobody."""
APART = 600.0
"""Seconds between two full collections."""


class Garbage:
    """Takes over from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._collected = self._pressed = time.monotonic()

    def start(self) -> None:
        """Nothing but the young, and those by :meth:`turn`, from now on."""
        gc.set_threshold(SPATE, NEVER, NEVER)

    def stop(self) -> None:
        """As it was before."""
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def pressed(self) -> None:
        """Somebody is there."""
        self._pressed = time.monotonic()

    def turn(self) -> None:
        """Collect the young, twenty times a second."""
        gc.collect(0)
        gc.freeze()

    def rest(self) -> bool:
        """Collect everything if it is due and disturbs nobody; says whether it did."""
        now = time.monotonic()
        if now - self._pressed < REST or now - self._collected < APART:
            return False
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._collected = time.monotonic()
        return True
