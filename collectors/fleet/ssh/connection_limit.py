"""How many handshakes run at once: more would stall the screen and overrun sshd's MaxStartups."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

HANDSHAKES = 8


class ConnectionLimit:
    """A number of handshakes at a time."""

    def __init__(self, most: int = HANDSHAKES) -> None:
        self._free = asyncio.Semaphore(most)

    def slot(self) -> Slot:
        """The slot of one handshake, to be taken with ``async with``."""
        return Slot(self._free)


class Slot:
    """A slot that may be given up early, while its owner waits for a slow host or for a person."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free = free
        self._held = False

    async def take(self) -> None:
        """Wait for it; nothing when it is held already."""
        if not self._held:
            await self._free.acquire()
            self._held = True

    def give_up(self) -> None:
        """Let somebody else have it; nothing when it is not held."""
        if self._held:
            self._held = False
            self._free.release()

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()
