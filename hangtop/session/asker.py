"""What those who ask nodes on a session's behalf need of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from collectors.fleet.transport import Transport
from collectors.samples.collectives import RasEvent, RasReport, RecorderDump
from collectors.samples.stacks import StackDump
from hangtop.session.state.job_state import JobState, RankState


class AskingSession(Protocol):
    """A session as looks at stacks and witnesses see it; see :class:`~hangtop.session.session.Session`."""

    @property
    def state(self) -> JobState:
        """The latest of everything."""

    def now(self) -> float:
        """The session's present."""

    def living(self) -> list[RankState]:
        """The living ranks of the job."""

    def pause(self, node: str, pids: Sequence[int], *, over: bool) -> None:
        """Take that a look which pauses these processes begins, or is over."""

    def stacks(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take what a look brought."""

    def witness(self, said: RecorderDump | RasReport | RasEvent) -> None:
        """Take what a flight recorder held, RAS answered, or RAS noticed."""

    def bad_line(self, node: str, text: str, why: str) -> None:
        """Count what could not be read."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node."""
