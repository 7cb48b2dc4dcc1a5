"""Where a session's samples come from: a live fleet, a recording, or nowhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from collectors.fleet.ssh.asking import Question
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.control import Settings

if TYPE_CHECKING:
    from hangtop.session.session import Session


class Feed:
    """What delivers into a session; this one delivers nothing, and reaches no node."""

    connected = False
    """True when nodes can be asked for more than they send."""
    unreached = "this session has no connections"
    """Why no node can be reached."""

    def now(self) -> float:
        """The feed's present: wall clock, or a recording's time."""
        return time.time()

    async def start(self, session: Session) -> None:
        """Begin to deliver to a session."""

    async def close(self) -> None:
        """Stop, and leave nothing behind."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`~collectors.fleet.transport.TransportError`."""
        raise TransportError(f"{node}: {self.unreached}")

    def python(self, node: str) -> str:
        """The interpreter that was found on a node. Raises the same."""
        raise TransportError(f"{node}: {self.unreached}")

    def retry(self, node: str) -> None:
        """Try to reach a lost node now. Raises the same."""
        raise TransportError(f"{node}: {self.unreached}")

    def settings(self, node: str | None, settings: Settings) -> None:
        """Send new settings to one node, or to all."""


class Nobody:
    """An asker for sessions in which nobody can be asked."""

    async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - the protocol's
        """Decline."""
        return None

    def tell(self, text: str) -> None:
        """Let it be."""
