"""How many commands run at once over one connection: sshd refuses more than its MaxSessions (10 by default)."""

from __future__ import annotations

import asyncio

CHANNELS = 8


class Channels:
    """Places for the channels of one connection; there are fewer once the server has refused one."""

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
        """Wait for a place."""
        while self.open >= self.limit:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # its turn had come: somebody else has it then
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        self.open += 1

    def give_back(self) -> None:
        """A channel is closed."""
        self.open -= 1
        self._wake()

    def refused(self) -> bool:
        """The server refused the channel that was taken last. True when another will fit once one is closed."""
        self.open -= 1
        if self.open < 2:  # the stream alone: what it leaves is never enough
            return False
        self.limit = min(self.limit, self.open)
        return True

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                return
