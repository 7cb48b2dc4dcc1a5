"""How many handshakes run at once: more would stall the screen and overrun sshd's MaxStartups."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

HANDSHAKES = 8


class Gate:
    """A number of places for handshakes."""

    def __init__(self, places: int = HANDSHAKES) -> None:
        self._places = asyncio.Semaphore(places)

    def place(self) -> Place:
        """One handshake's place, to be taken with ``async with``."""
        return Place(self._places)


class Place:
    """A place that may be given up early, while its owner waits for a slow host or for a person."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def take(self) -> None:
        """Wait for a place; nothing when it is held already."""
        if not self._held:
            await self._places.acquire()
            self._held = True

    def give_up(self) -> None:
        """Let somebody else have it; nothing when it is not held."""
        if self._held:
            self._held = False
            self._places.release()

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()
