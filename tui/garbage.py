"""When Python may look for reference cycles: never at length while somebody types.

The state of a large job is millions of small tuples, and a full collection looks at each of them: 60 ms for 512 ranks,
more than half a second for 16,384. Young objects are collected as ever; old ones when nobody has pressed a key for a
while. What is no cycle is freed at once in any case.
"""

from __future__ import annotations

import gc
import time

YOUNG = 5_000
"""Allocations between two collections of the youngest objects: under a millisecond each."""
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
        """No full collection by itself from now on."""
        gc.set_threshold(YOUNG, 10, NEVER)

    def stop(self) -> None:
        """As it was before."""
        gc.set_threshold(*self._before)

    def pressed(self) -> None:
        """Somebody is there."""
        self._pressed = time.monotonic()

    def rest(self) -> bool:
        """Collect everything if it is due and disturbs nobody; says whether it did."""
        now = time.monotonic()
        if now - self._pressed < REST or now - self._collected < APART:
            return False
        gc.collect()
        self._collected = time.monotonic()
        return True
