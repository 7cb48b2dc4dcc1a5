"""What the parts of a session ask of the session that they are a part of: so that none of them imports it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.job_snapshot import JobSnapshot, NodeSnapshot
from hangtop.session.motion.progress import Progress
from hangtop.session.options import SessionOptions
from hangtop.session.state.job_state import JobState, RankState
from hangtop.session.watching.job_sources import JobSources


class WatchedSession(Protocol):
    """A session as the watcher sees it; each member is described where :class:`~hangtop.session.session.Session` is."""

    options: SessionOptions
    progress: Progress
    job_sources: JobSources

    @property
    def state(self) -> JobState:
        """The latest of everything."""

    @property
    def can_act(self) -> bool:
        """True when nodes can be asked for more than they send."""

    @property
    def alarm_after(self) -> float:
        """Seconds that the job may stand still."""

    def now(self) -> float:
        """The session's present."""

    def ticking(self) -> Iterator[None]:
        """Look at the cheap signs of progress, a slice at a time."""

    def node_snapshot(self, name: str) -> NodeSnapshot:
        """One node of this moment, copied."""

    def snapshot(self, nodes: Mapping[str, NodeSnapshot] | None = None) -> JobSnapshot:
        """All of this moment, copied."""

    def job_of(self, snapshot: JobSnapshot) -> Job:
        """Make the job of a snapshot."""

    def living(self) -> list[RankState]:
        """The living ranks of the job."""

    def publish(self, verdict: Verdict) -> Verdict:
        """Make this the session's verdict."""

    async def dump_stacks(
        self, ranks: Collection[int] | None, *, native: bool = False, samples: int = 1, unasked: bool = False
    ) -> list[tuple[str, StackDump]]:
        """Look at the stacks of these ranks, or of all."""
