"""An event loop that reads from a few nodes at a time.

asyncio reads from everybody who has something to say before it does anything else. With 2,048 nodes that is a third of
a second as soon as this machine falls behind, and a key press waits for all of it. Here what is ready is taken in turns
of :data:`AT_ONCE`, in order, and between two turns keys, timers and paints have theirs. While a key is on its way to
the screen, which takes some twenty turns, a turn is one node's; also beside a thread of ours, which makes each longer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable

AT_ONCE = 4
"""Descriptors of a turn, a millisecond of samples."""

Ready = tuple[selectors.SelectorKey, int]


class Turns(selectors.DefaultSelector):
    """A selector that keeps back what does not fit into a turn, and hands it out before it asks the kernel again."""

    def __init__(self, hurried: Callable[[], bool]) -> None:
        super().__init__()
        self._hurried = hurried
        self._waiting: deque[Ready] = deque()

    def select(self, timeout: float | None = None) -> list[Ready]:
        """What is ready, at most :data:`AT_ONCE` of it, or one in a hurry; waits only when nobody is left waiting."""
        waiting = self._waiting
        if not waiting:
            ready = super().select(timeout)
            if len(ready) <= 1:
                return ready
            waiting.extend(ready)
        at_once = 1 if self._hurried() else AT_ONCE
        registered = self.get_map()
        turn: list[Ready] = []
        while waiting and len(turn) < at_once:
            key, events = waiting.popleft()
            # It may have been closed, or have got another callback, while it waited.
            now = registered.get(key.fd)
            if now is not None and events & now.events:
                turn.append((now, events & now.events))
        return turn


def event_loop(hurried: Callable[[], bool] = lambda: False) -> asyncio.SelectorEventLoop:
    """A loop that takes turns; for :class:`asyncio.Runner`. ``hurried`` tells whether somebody waits for the screen."""
    return asyncio.SelectorEventLoop(Turns(hurried))
