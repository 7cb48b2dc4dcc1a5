"""One session: samples in, the job's state, stacks on demand, and the verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collectors.fleet.questions import Asker, Question
from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.control import ENDED, Settings
from collectors.samples.stacks import StackDump
from hangtop import __version__
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.asking.looking import Glance, StackLooks
from hangtop.session.asking.witnesses import Witnesses
from hangtop.session.feed import Feed
from hangtop.session.options import SessionOptions
from hangtop.session.pace import LATE, Pace
from hangtop.session.picture import Frame, NodeSheet, Picture, Sheet, one_job
from hangtop.session.progress import Progress
from hangtop.session.shared_logs import SharedLogs
from hangtop.session.sharing import shared_stack
from hangtop.session.state import Change, JobState, RankState
from hangtop.session.store import Store
from hangtop.session.watcher import Watcher

if TYPE_CHECKING:
    from hangtop.diagnosis.traces.picture import Picture as TracePicture
    from hangtop.session.probed.answer import Probed
    from hangtop.session.recording import Recorder

CONNECTING = 20
"""Nodes of which one may be connecting while the machine is measured."""

OnVerdict = Callable[[Verdict | None, Verdict], None]
"""Called with the verdict before and the new one, when what it says changed."""


class Nobody:
    """An asker for sessions in which nobody can be asked."""

    async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - the protocol's
        """Decline."""
        return None


class Session:
    """One job, watched.

    It is the sink of its feed. ``state`` is the latest of everything; ``verdict`` the latest answer, None before the
    first. ``asker`` may be replaced at any time. Without a feed nothing comes by itself: tests and ``analyze`` put
    samples in.
    """

    def __init__(
        self,
        options: SessionOptions,
        *,
        feed: Feed | None = None,
        asker: Asker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options = options
        self.asker: Asker = asker or Nobody()
        self.on_verdict: list[OnVerdict] = []
        self.verdict: Verdict | None = None
        self._feed = feed
        self._clock = clock if feed is None else feed.now
        self._store = Store(clock=self._clock)
        self.picture = Picture(self._store.state)
        self.progress = Progress(self._store.state)
        self._strangers: set[tuple[str, int]] = set()
        self._shared_logs = SharedLogs(self._store.state)
        self._on_view: tuple[str, ...] = ()
        self._left_behind = False
        self._looks = StackLooks(self, feed)
        self.pace = Pace()
        self.watcher = Watcher(self)
        self.witnesses = Witnesses(self)
        self._watching: asyncio.Task[None] | None = None
        self._recorder: Recorder | None = None
        self.probed: list[Probed] = []
        """Answers of the probes of collectives that were asked for, oldest first."""
        self.traces: TracePicture | None = None
        """What the profiler traces that were read last say together."""
        self.recording_fault = ""
        """Why the recording ended before the session; empty while all is well."""

    @property
    def state(self) -> JobState:
        """The latest of everything."""
        return self._store.state

    @property
    def label(self) -> str:
        """What kind of session this is, for the banner; empty for a plain live one."""
        return self.options.label

    @property
    def live(self) -> bool:
        """False when it shows logs after the fact: silence means nothing then."""
        return self._feed is None or self._feed.live

    @property
    def can_act(self) -> bool:
        """True when nodes can be asked for more than they send."""
        return self._feed is not None and self._feed.connected

    def now(self) -> float:
        """The session's present: wall clock, or a recording's time."""
        return self._clock()

    # --- its life ------------------------------------------------------------------------------------------------

    async def start(self, *, watching: bool = True) -> None:
        """Begin to deliver; returns once connecting is under way, not when it is done.

        Without ``watching`` the session neither judges nor looks at stacks by itself: the caller does.
        """
        if self._feed is not None:
            await self._feed.start(self)
        if watching:
            self._watching = asyncio.create_task(self.watcher.run(), name="hangtop watcher")

    async def close(self) -> None:
        """End every connection and task of the session."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._feed is not None:
            await self._feed.close()
        self._keep(lambda recorder: recorder.close())
        self._recorder = None

    def record(self, path: Path) -> Recorder:
        """Write all that comes from now on to a file, until the session is closed.

        Raises :class:`~hangtop.session.recording.RecordingError`.
        """
        from hangtop.session.recording import About, Recorder  # and zstandard: not before a recording is asked for

        options = self.options
        about = About(__version__, list(options.targets), self.now(), options.interval, options.patience, options.label)
        self._recorder = Recorder(path, about)
        return self._recorder

    # --- sink ----------------------------------------------------------------------------------------------------

    def samples(self, node: str, samples: Sequence[NamedTuple], size: int) -> None:
        """Take what came from a node (see :class:`collectors.fleet.sink.Sink`)."""
        self._store.samples(node, samples, size)
        self._keep(lambda recorder: recorder.samples(self.now(), node, samples))

    def link(self, change: LinkChange) -> None:
        """Take a node's new connection state."""
        self._store.link(change)
        self._keep(lambda recorder: recorder.link(self.now(), change))

    def bad_line(self, node: str, text: str, why: str) -> None:
        """Count a line that did not decode."""
        self._store.bad_line(node, text, why)
        self._keep(lambda recorder: recorder.bad_line(self.now(), node, text, why))

    def stacks(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take what a look at a node's stacks brought, on this machine's clock."""
        named = [(node, shared_stack(dump)) for dump in dumps]
        self.state.stacks.extend(named)
        self.progress.saw(named)
        self._keep(lambda recorder: recorder.stacks(self.now(), node, dumps))

    def _keep(self, write: Callable[[Recorder], None]) -> None:
        """Add to the recording; a full disk ends the recording, not the watch."""
        if self._recorder is None:
            return
        from hangtop.session.recording import RecordingError

        try:
            write(self._recorder)
        except RecordingError as error:
            self._recorder = None
            self.recording_fault = str(error)
            self.state.changes.append(Change(self.now(), "", f"recording ended: {error}"))

    # --- thinking ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look at the cheap signs of progress; done by itself once started."""
        for _ in self.ticking():
            pass

    def ticking(self) -> Iterator[None]:
        """The same in slices: between two of them the event loop may do other things."""
        yield from self.progress.looking(self.now(), self._strangers)
        for node in self._shared_logs.assign():
            self._tell(node)

    def job(self) -> Job:
        """The frozen picture of this moment."""
        return self.pictured(self.sheet())

    def sheet(self, nodes: Mapping[str, NodeSheet] | None = None) -> Sheet:
        """What the picture of this moment is made of; see :meth:`Picture.sheet`."""
        now = self.now()
        return self.picture.sheet(
            Frame(
                now=now,
                watched=now - self.state.started,
                live=self.live,
                patience=self.options.patience,
                stood_still=self.progress.stood_still,
                usual_pause=self.progress.usual_pause,
            ),
            nodes,
        )

    def pictured(self, sheet: Sheet) -> Job:
        """Make the picture, and remember which processes are not of the job."""
        job = replace(sheet.job(), probed=tuple(answer.report for answer in self.probed), traces=self.traces)
        self._strangers = {(other.node, other.process.pid) for other in job.others}
        return job

    def living(self) -> list[RankState]:
        """The living ranks of the job, by rank; cheaper than a picture."""
        ranks, _ = one_job(rank for node in self.state.nodes.values() for rank in node.ranks.values())
        return [rank for rank in ranks if rank.gone_at is None]

    def diagnose(self) -> Verdict:
        """Judge this moment and publish the verdict."""
        # Imported here: the rules and their tables are not needed before the first frame.
        from hangtop.diagnosis.verdict import diagnose

        verdict = diagnose(self.job())
        self.publish(verdict)
        return verdict

    async def judge(self) -> Verdict:
        """The same without holding up the event loop for long, however large the job."""
        return await self.watcher.think()

    def watched_from(self, at: float) -> None:
        """Count the time watched from here: what came before was connecting."""
        self.state.started = at

    def publish(self, verdict: Verdict) -> None:
        """Make this the session's verdict, and tell who wants to know when it says something else than before."""
        before, self.verdict = self.verdict, verdict
        self.progress.alarmed = verdict.outcome == "hung"
        if before is None or _says(before) != _says(verdict):
            for tell in self.on_verdict:
                tell(before, verdict)

    @property
    def alarm_after(self) -> float:
        """Seconds that the job may stand still (see :attr:`hangtop.diagnosis.job.Job.alarm_after`)."""
        return max(self.options.patience, 2.0 * (self.progress.usual_pause or 0.0))

    # --- acting --------------------------------------------------------------------------------------------------

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`TransportError` when there is none."""
        if self._feed is None:
            raise TransportError(f"{node}: this session has no connections")
        return self._feed.transport(node)

    def python(self, node: str) -> str:
        """The interpreter that was found on a node. Raises :class:`TransportError` when there is none."""
        if self._feed is None:
            raise TransportError(f"{node}: this session has no connections")
        return self._feed.python(node)

    def view_logs(self, paths: Collection[str]) -> None:
        """Ask the nodes for the raw lines of these files; ``*`` is every followed file, sampled."""
        wanted = tuple(sorted(paths))
        if wanted != self._on_view:
            self._on_view = wanted
            self._tell_all()

    def read_left_behind(self) -> None:
        """Have nodes on which no rank runs read the logs of a job that ended a short while ago."""
        if not self._left_behind:
            self._left_behind = True
            self._tell_all()

    @property
    def interval(self) -> float:
        """Seconds between two looks of a node: those that were asked for, more on a machine that is too slow for it."""
        return self.options.interval * self.pace.factor

    def keep_pace(self) -> None:
        """Have the nodes look less often while this machine cannot keep up with them, and say so."""
        nodes = self.state.nodes.values()
        if sum(node.link == "connecting" for node in nodes) * CONNECTING > len(nodes):
            self.pace.begin()  # handshakes take all that they are given, for a moment
        elif self.pace.changed(self._lateness):
            late = f", and what nodes say lies for {self.pace.late:.1f} s" if self.pace.late > LATE else ""
            text = f"hangtop takes {self.pace.share:.0%} of a core{late}: nodes look every {self.interval:g} s now"
            self.state.changes.append(Change(self.now(), "", text))
            self._tell_all()

    def _lateness(self) -> float:
        """Seconds by which live nodes' last ticks were read later than their quickest ones, on the average."""
        late = [
            max(0.0, node.seen_at - (node.tick.clock - node.clock_offset))
            for node in self.state.nodes.values()
            if node.link == "live" and node.seen_at and node.tick and node.clock_offset is not None
        ]
        return sum(late) / max(1, len(late))

    def settings(self, node: str | None = None) -> Settings:
        """What a node side is told to do: one node's, or those that any starts with."""
        options = self.options
        return Settings(
            interval=self.interval,
            phase=0.0,
            job=list(options.job) if options.job else None,
            log_globs=[*options.logs, *([ENDED] if self._left_behind else [])],
            on_view=list(self._on_view),
            not_mine=list(self._shared_logs.not_mine(node)) if node else [],
        )

    def _tell_all(self) -> None:
        self._tell(None)
        for node in self.state.nodes:
            if self._shared_logs.not_mine(node):
                self._tell(node)

    def _tell(self, node: str | None) -> None:
        if self._feed is not None:
            self._feed.settings(node, self.settings(node))

    async def dump_stacks(
        self, ranks: Collection[int] | None, *, native: bool = False, samples: int = 1, unasked: bool = False
    ) -> list[tuple[str, StackDump]]:
        """Look at the stacks of these ranks, or of all (see :meth:`~hangtop.session.asking.looking.Looks.dump`)."""
        return await self._looks.dump(ranks, Glance(native, samples, unasked, self.options.py_spy or ""))

    async def warm_stacks(self) -> None:
        """Have what looks at stacks at hand on every node with ranks: a look is likely soon."""
        await self._looks.warm(self.options.py_spy or "")


def _says(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, without the seconds in its texts."""
    return verdict.outcome, *((f.kind, f.ranks, f.nodes, f.gpus, f.ports) for f in verdict.findings)
