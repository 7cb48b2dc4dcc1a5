"""Where a session's samples come from: a live fleet, a recording, or files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from collectors.fleet.ssh.asking import Question
from collectors.fleet.transport import Transport
from collectors.samples.control import Settings

if TYPE_CHECKING:
    from hangtop.session.session import Session


class Player(Protocol):
    """What plays a recording."""

    paused: bool
    speed: float

    @property
    def ends(self) -> float:
        """Time of the recording's last entry."""

    @property
    def ended(self) -> bool:
        """True when everything has been delivered."""

    async def seek(self, at: float) -> None:
        """Go on to a later time at once, with the event loop running in between."""


class Feed(Protocol):
    """What delivers into a session. What reaches a node raises :class:`~collectors.fleet.transport.TransportError`."""

    @property
    def live(self) -> bool:
        """False for logs after the fact: silence means nothing then."""

    @property
    def connected(self) -> bool:
        """True when nodes can be asked for more than they send; False for a recording."""

    def now(self) -> float:
        """The feed's present: wall clock, or a recording's time."""

    async def start(self, session: Session) -> None:
        """Begin to deliver to a session."""

    async def close(self) -> None:
        """Stop, and leave nothing behind."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node."""

    def retry(self, node: str) -> None:
        """Try to reach a lost node now."""

    def settings(self, node: str | None, settings: Settings) -> None:
        """Send new settings to one node, or to all."""


class Nobody:
    """An asker for sessions in which nobody can be asked."""

    async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - the protocol's
        """Decline."""
        return None

    def tell(self, text: str) -> None:
        """Let it be."""
