"""When Python may look for reference cycles: never at length while somebody types.

A large job's state is millions of small tuples, and a full collection looks at each of them: 60 ms for 512 ranks,
more than half a second for 16,384. Python's own rhythm is no help: it counts what was made less what was freed, and
where every new look takes the place of an old one that stays near nothing, while the young that were never looked at
gather, until one "quick" collection of them takes 50 ms. So here the young are put out of sight twenty times a
second, two thousand at a time, and everything is looked at when nobody has pressed a key for a while. Before that the
young are looked at where it is worth it: connecting makes cycles, and so does each key, but a screen that nobody
touches makes sixteen objects of them a second; there it is done every twentieth time, to see whether that is still
so. Where little is made, as of few nodes, there is next to nothing to put away, and each time wakes this process up:
then it is done five times a second. What is no cycle is freed at once in any case.
"""

from __future__ import annotations

import asyncio
import gc
import time

TURN = 0.05
"""Seconds after which the young are put out of sight; looking at those of 16,384 ranks that move takes 2 ms."""
SELDOM = 0.2
"""Seconds that pass instead, where no more was made in the last turn than"""
LITTLE = 2_000
"""objects, and nobody has pressed a key since the turns began to be worth less."""
FEW = 64
"""Objects in cycles, found in one turn, from which on the next turn looks again."""
GAP = 20
"""Turns from one look at the young to the next at the most."""
SPATE = 2_000_000
"""Objects that may be made between two turns before Python collects them by itself: not even where a turn is late."""
MANY = 25_000
"""Objects made since the last turn up to which it looks at them: 10 ms. More are made where thousands of nodes are
judged, and to look at those takes as long as several paints."""
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
        self._gap = self._left = 1
        """Turns from one look to the next, and those left until then."""
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Nothing but the young, and those by :meth:`turn`, from now on."""
        gc.set_threshold(SPATE, NEVER, NEVER)

    def take_turns(self) -> None:
        """Turn now, and by this loop again and again until :meth:`stop`."""
        self._next = asyncio.get_running_loop().call_later(self.turn(), self.take_turns)

    def stop(self) -> None:
        """As it was before."""
        if self._next is not None:
            self._next.cancel()
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def pressed(self) -> None:
        """Somebody is there."""
        self._pressed = time.monotonic()
        self._gap = self._left = 1

    def turn(self) -> float:
        """Put the young out of sight; collect them before when it is time. Returns the seconds until the next turn."""
        made = gc.get_count()[0]
        self._left -= 1
        if self._left <= 0 and made <= MANY:
            self._gap = 1 if gc.collect(0) >= FEW else min(GAP, 2 * self._gap)
            self._left = self._gap
        gc.freeze()
        return SELDOM if made <= LITTLE and self._gap == GAP else TURN

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
