"""The turn of one handshake: a place among those that run at once, and the time that it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Waiting = Callable[[str], None]
"""Told what a connection waits for, a person or nothing."""


class Turn:
    """A handshake's place among those that run at once, and its deadline; neither is held while a person thinks."""

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
        """Wait for a place, then start the clock from the beginning."""
        self._reschedule(None)
        await self._places.acquire()
        self._held = True
        self._reschedule(self._seconds)

    def give_up_place(self) -> None:
        """Let another handshake have the place."""
        if self._held:
            self._held = False
            self._places.release()

    def resting(self, told: Waiting) -> Waiting:
        """``told``, with neither clock nor place while it says that somebody is waited for."""

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
