"""The time that a handshake may take, which does not pass while a person thinks or others go first."""

from __future__ import annotations

import asyncio
from asyncio import Timeout
from collections.abc import Callable

from collectors.fleet.ssh.client import Client
from collectors.fleet.ssh.connection_limit import Slot


class HandshakeClock:
    """A handshake's deadline, which rests while others are waited for."""

    def __init__(self, deadline: Timeout, seconds: float) -> None:
        self._deadline = deadline
        self._seconds = seconds

    def rest(self) -> None:
        """Stop it."""
        if not self._deadline.expired():
            self._deadline.reschedule(None)

    def run(self) -> None:
        """Start it again from the beginning."""
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)


def rest_for_people(client: Client, slot: Slot, clock: HandshakeClock) -> Callable[[str], None]:
    """Let a handshake's clock rest, and others shake hands, while a person thinks.

    Returns whom the client told of that before, and tells again once the handshake is over.
    """
    told = client.waiting

    def waiting(reason: str) -> None:
        told(reason)
        if reason:
            slot.give_up()
            clock.rest()
        else:
            clock.run()

    client.waiting = waiting
    return told
