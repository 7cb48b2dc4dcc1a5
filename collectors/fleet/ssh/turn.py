"""A place among the handshakes that run at once, and the deadline of one handshake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Waiting = Callable[[str], None]
"""Called with what a connection waits for, and with an empty text once it does not."""


class Turn:
    """A handshake's place and deadline; while a person is asked, it gives up the place and the clock stops."""

    def __init__(self, places: asyncio.Semaphore, deadline: asyncio.Timeout, seconds: float) -> None:
        self._places = places
        self._deadline = deadline
        self._seconds = seconds
        self._held = False

    async def __aenter__(self) -> Turn:
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.give_up_place()

    async def begin(self) -> None:
        """Wait for a place, then start the clock."""
        self._reschedule(None)
        await self._places.acquire()
        self._held = True
        self._reschedule(self._seconds)

    def give_up_place(self) -> None:
        """Release the place."""
        if self._held:
            self._held = False
            self._places.release()

    def resting(self, told: Waiting) -> Waiting:
        """``told``, which also stops the clock and releases the place while a person is asked."""

        def waiting(reason: str) -> None:
            told(reason)
            if reason:
                self.give_up_place()
            self._reschedule(None if reason else self._seconds)

        return waiting

    def _reschedule(self, seconds: float | None) -> None:
        if not self._deadline.expired():
            now = asyncio.get_running_loop().time()
            self._deadline.reschedule(None if seconds is None else now + seconds)
