"""What the screen needs of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from collectors.fleet.ssh.asking import Asker
from collectors.fleet.transport import Transport
from collectors.samples.probes import ProbeReport
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.feed import Player
from hangtop.session.history.history import History
from hangtop.session.job_snapshot import JobSnapshot
from hangtop.session.node_settings import NodeSettings
from hangtop.session.options import SessionOptions
from hangtop.session.recordings import Recordings
from hangtop.session.state.job_state import JobState
from hangtop.session.watching.witnesses import Witnesses

if TYPE_CHECKING:
    from hangtop.diagnosis.traces.picture import TracePicture


class Subject(Protocol):
    """What the screen needs of a session; :class:`hangtop.session.session.Session` is one."""

    options: SessionOptions
    asker: Asker
    verdict: Verdict | None
    witnesses: Witnesses
    probed: list[ProbeReport]
    traces: TracePicture | None
    history: History
    recordings: Recordings
    node_settings: NodeSettings
    player: Player | None
    strangers: frozenset[tuple[str, int]]
    """Nodes and pids of processes that look like ranks and are not of the job, or are told by a second name, too."""
    told_twice: int
    """How many of these are the job's own."""

    @property
    def state(self) -> JobState:
        """The latest of everything."""

    @property
    def label(self) -> str:
        """What kind of session this is, for the banner."""

    @property
    def live(self) -> bool:
        """False when it shows what is over."""

    @property
    def can_act(self) -> bool:
        """True when nodes can be asked for more than they send: not in a recording, nor in files."""

    def now(self) -> float:
        """The session's present, seconds since the epoch."""

    def job(self) -> Job:
        """The frozen picture of this moment."""

    def snapshot(self) -> JobSnapshot:
        """All of this moment, copied."""

    def job_of(self, snapshot: JobSnapshot) -> Job:
        """Make the job of a snapshot; may be called in another thread."""

    async def start(self) -> None:
        """Begin to deliver."""

    async def close(self) -> None:
        """End every connection."""

    async def dump_stacks(
        self, ranks: set[int] | None, *, native: bool = False, samples: int = 1
    ) -> list[tuple[str, StackDump]]:
        """Look at the stacks of these ranks, or of all."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`~collectors.fleet.transport.TransportError`."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node. Raises :class:`~collectors.fleet.transport.TransportError`."""

    def retry(self, node: str) -> None:
        """Try to reach a lost node now. Raises :class:`~collectors.fleet.transport.TransportError`."""
