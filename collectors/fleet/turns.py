"""An event loop that reads from a few nodes at a time.

asyncio reads from everybody who has something to say before it does anything else. With 2,048 nodes that is a third of
a second as soon as this machine falls behind, and a key press waits for all of it. Here what is ready is taken in turns
of :data:`AT_ONCE`, in order, and between two turns keys, timers and paints have theirs.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque

AT_ONCE = 4
"""Descriptors of a turn, half a millisecond of samples: from a key to its paint it takes some twenty turns."""

Ready = tuple[selectors.SelectorKey, int]


class Turns(selectors.DefaultSelector):
    """A selector that keeps back what does not fit into a turn, and hands it out before it asks the kernel again."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Ready] = deque()

    def select(self, timeout: float | None = None) -> list[Ready]:
        """What is ready, at most :data:`AT_ONCE` of it; waits only when nobody is left waiting."""
        waiting = self._waiting
        if not waiting:
            ready = super().select(timeout)
            if len(ready) <= AT_ONCE:
                return ready
            waiting.extend(ready)
        registered = self.get_map()
        turn: list[Ready] = []
        while waiting and len(turn) < AT_ONCE:
            key, events = waiting.popleft()
            # It may have been closed, or have got another callback, while it waited.
            now = registered.get(key.fd)
            if now is not None and events & now.events:
                turn.append((now, events & now.events))
        return turn


def event_loop() -> asyncio.SelectorEventLoop:
    """A loop that takes turns; for :class:`asyncio.Runner`."""
    return asyncio.SelectorEventLoop(Turns())
