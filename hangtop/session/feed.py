"""Where a session's samples come from (a live fleet, or a recording), and what parts of a session need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from collectors.fleet.sink import Sink
from collectors.fleet.ssh.asking import Asker, Question
from collectors.fleet.transport import Transport
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.control import Settings
from collectors.samples.stacks import StackDump
from hangtop.session.state.job_state import JobState, RankState

if TYPE_CHECKING:
    from hangtop.diagnosis.finding import Verdict


class Answers(Protocol):
    """A session as it takes the answers of what is asked beside the stream of samples."""

    def stacks(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take what a look at a node's stacks brought, on this machine's clock."""

    def take_report(self, said: RecorderDump | RasReport) -> None:
        """Take what a flight recorder held, or RAS answered."""

    def bad_line(self, node: str, text: str, why: str) -> None:
        """Count what could not be read."""


class AskingSession(Answers, Protocol):
    """A session as who asks its nodes sees it; see :class:`~hangtop.session.session.Session`."""

    @property
    def state(self) -> JobState:
        """The latest of everything."""

    def now(self) -> float:
        """The session's present."""

    def living(self) -> list[RankState]:
        """The living ranks of the job."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node."""


class Receiver(Sink, Answers, Protocol):
    """What a feed delivers to: a sink that also answers questions and knows what the nodes should do."""

    asker: Asker

    def settings(self, node: str | None = None) -> Settings:
        """What a node side is told to do: one node's, or those that any starts with."""

    def tick(self) -> None:
        """Look at the cheap signs of progress."""

    async def judge(self) -> Verdict:
        """Judge this moment, with the event loop running meanwhile."""

    def located(self, leaves: Mapping[str, str]) -> None:
        """Take the leaf switches of nodes, by Slurm's names of the nodes."""

    def mark(self, at: float, text: str) -> None:
        """Mark a moment on the line of time."""


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

    async def start(self, receiver: Receiver) -> None:
        """Begin to deliver."""

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
