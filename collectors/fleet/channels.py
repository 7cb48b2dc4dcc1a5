"""A limit on the commands that run at once over one connection: sshd refuses more than its MaxSessions (default 10)."""

from __future__ import annotations

import asyncio

CHANNELS = 8


class Channels:
    """A semaphore for the channels of one connection; its limit falls once the server has refused a channel."""

    __slots__ = (
        "_waiters",
        "limit",
        "open",
    )

    def __init__(self, limit: int = CHANNELS) -> None:
        self.limit = limit
        self.open = 0
        self._waiters: list[asyncio.Future[None]] = []

    async def take(self) -> None:
        """Wait until another channel may be opened."""
        while self.open >= self.limit:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # this waiter had been woken: wake the next one
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        self.open += 1

    def give_back(self) -> None:
        """Note that a channel was closed."""
        self.open -= 1
        self._wake()

    def refused(self) -> bool:
        """Note that the server refused the last channel. True when another channel fits once one is closed."""
        self.open -= 1
        if self.open < 2:  # the node side's stream alone is open: no further channel will ever fit
            return False
        self.limit = min(self.limit, self.open)
        return True

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                return
