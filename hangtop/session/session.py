"""One session: samples in, the job's state, stacks on demand, and the verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from collectors.fleet.sink import Asker, HostKeyQuestion
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.stream import Settings
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job, alarm_after
from hangtop.diagnosis.node import Node, Rank
from hangtop.session.history import History
from hangtop.session.intake import Intake
from hangtop.session.job_selection import select_job, with_ranks
from hangtop.session.motion.progress import SLICE
from hangtop.session.node_settings import NodeSettings
from hangtop.session.options import SessionOptions, completed, names_no_node
from hangtop.session.watching.job_sources import JobSources
from hangtop.session.watching.watcher import Watcher

if TYPE_CHECKING:
    from collectors.fleet.fleet import Fleet
    from collectors.samples.probes import ProbeReport

STACKS_KEPT = 90.0
"""Seconds for which stack dumps stay in a snapshot while the job moves: about nine samples. While the job stands still,
all dumps since then stay."""


class Session(Intake):
    """One job, watched. Subclasses deliver the samples of nodes, recordings and files; here, the caller delivers them.

    ``verdict`` is the latest answer, None before the first.
    """

    live = True
    """False for logs read after the fact, in which silence means nothing."""
    can_act = False
    """True if nodes can be asked for more than they send."""
    unreached = "this session has no connections"
    """Why no node can be reached."""
    until: float | None = None
    """The moment at which a replay ends; None if the session replays no recording."""

    def __init__(self, options: SessionOptions, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(options, clock)
        self.options = options
        self.ask_person: Asker | None = None
        """Asks the user; None if there is no user to ask."""
        self.verdict: Verdict | None = None
        self.history = History()
        self.unrelated: frozenset[tuple[str, int]] = frozenset()
        """(node, pid) of processes that look like ranks but are not of the job, as of the last :meth:`job_of`."""
        self._timeout: float | None = None
        self._living: tuple[int, list[Rank]] = (-1, [])
        self.fleet: Fleet | None = None
        """The connections to the nodes, if any."""
        self.node_settings = NodeSettings(options, self.state, self._send_settings)
        self.watcher = Watcher(self)
        self.job_sources = JobSources(self)
        self._watching: asyncio.Task[None] | None = None
        self.probed: list[ProbeReport] = []
        """Reports of the collective probes that the user ran, oldest first."""

    # --- its life ------------------------------------------------------------------------------------------------

    async def start(self, *, watching: bool = True) -> None:
        """Start the input; returns once connecting is under way, without waiting for it.

        Without ``watching``, the session neither judges nor looks at stacks by itself: the caller does.
        """
        if watching:
            self._watching = asyncio.create_task(self.watch(), name="hangtop watcher")

    async def watch(self) -> None:
        """Judge, and look at stacks, until cancelled."""
        await self.watcher.run()

    async def close(self) -> None:
        """End every connection and task of the session."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self.fleet is not None:
            await self.fleet.close()
            self.fleet = None
        self.recordings.close()

    # --- thinking ------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Follow the cheap signs of progress; the watcher does this once the session is started."""
        for _ in self.ticking():
            pass

    def ticking(self) -> Iterator[None]:
        """The same in slices, between which the event loop can do other work."""
        yield from self.progress.updating(self.now(), self.unrelated)
        yield from self.history.taking(self.now(), self.state, self.progress, self.verdict)
        self.node_settings.share_logs()

    def job(self) -> Job:
        """The job at this moment, immutable."""
        return self.job_of(self.snapshot())

    def copying(self, nodes: dict[str, Node]) -> Iterator[None]:
        """Copy all nodes into ``nodes`` for :meth:`snapshot`, in slices like :meth:`ticking`."""
        for number, (name, node) in enumerate(tuple(self.state.nodes.items()), 1):
            nodes[name] = node.copied()
            if number % SLICE == 0:
                yield

    def snapshot(self, nodes: dict[str, Node] | None = None) -> Job:
        """All of now; ``nodes`` are copies by :meth:`copying`, made here if None. :meth:`job_of` adds the ranks."""
        if nodes is None:
            nodes = {}
            for _ in self.copying(nodes):
                pass
        now, state, still = self.now(), self.state, self.progress.stood_still
        oldest = now - max(STACKS_KEPT, (still or 0.0) + 1.0) if self.live else float("-inf")
        stacks = [(node, dump) for node, dump in state.stacks if dump.at >= oldest]
        events = tuple(state.events)
        return Job(
            now=now,
            watched=now - self.state.started,
            live=self.live,
            patience=self.options.patience,
            stood_still=still,
            usual_pause=self.progress.usual_pause,
            pauses=tuple(self.progress.pauses),
            motion=self.progress.motion,
            unasked=self.can_act and names_no_node(self.options),
            probed=tuple(self.probed),
            nodes=nodes,
            stacks=tuple(dump for _, dump in stacks),
            stack_nodes=tuple(node for node, _ in stacks),
            events=tuple(event for _, event in events),
            event_nodes=tuple(node for node, _ in events),
            progress=tuple(state.progress.values()),
            recorders=tuple(state.recorders.values()),
            ras=tuple(state.ras),
        )

    def job_of(self, snapshot: Job) -> Job:
        """Choose the ranks of a snapshot, perhaps in another thread; remember which processes are not of the job."""
        job = with_ranks(snapshot)
        self._timeout = job.collective_timeout
        self.unrelated = frozenset((other.node, other.process.pid) for other in (*job.others, *job.bystanders))
        return job

    def living(self) -> list[Rank]:
        """The living ranks of the job, by rank; cheaper than a snapshot, and cached until a process starts or ends."""
        nodes = self.state.nodes.values()
        roster = len(nodes) + sum([node.roster for node in nodes])
        if roster != self._living[0]:
            parted = select_job(rank for node in nodes for rank in node.ranks.values())
            self._living = roster, [rank for rank in parted.ranks if rank.gone_at is None]
        return self._living[1]

    def diagnose(self) -> Verdict:
        """Judge this moment and publish the verdict."""
        # Imported here: the rules and their tables are not needed before the first frame.
        from hangtop.diagnosis.verdict.verdict import diagnose

        return self.publish(diagnose(self.job()))

    def publish(self, verdict: Verdict) -> Verdict:
        """Make this the session's verdict; returns it with commands that the user can paste."""
        if self.can_act:
            verdict = completed(verdict, self.options, self.state.nodes)
        before, self.verdict = self.verdict, verdict
        self.history.judged(self.now(), verdict)
        if before is None or before.outcome != verdict.outcome:
            self.state.note(self.now(), verdict.summary, verdict.outcome)
        return verdict

    @property
    def alarm_after(self) -> float:
        """Seconds that the job may stand still before the alarm (:attr:`hangtop.diagnosis.job.Job.alarm_after`)."""
        return alarm_after(self.options.patience, self.progress.usual_pause, self._timeout)

    # --- acting --------------------------------------------------------------------------------------------------

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`~collectors.fleet.transport.TransportError`."""
        return self._reached(node).transport(node)

    def retry(self, node: str) -> None:
        """Try to reach a lost node now. Raises :class:`TransportError` if the session has no connections."""
        self._reached(node).retry(node)

    def _reached(self, node: str) -> Fleet:
        if self.fleet is None:
            raise TransportError(f"{node}: {self.unreached}")
        return self.fleet

    def _send_settings(self, node: str | None, settings: Settings) -> None:
        if self.fleet is not None:
            self.fleet.settings(node, settings)

    async def ask(self, question: HostKeyQuestion) -> bool | None:
        """Ask the user about a host key; None if there is no user to ask."""
        return None if self.options.batch or self.ask_person is None else await self.ask_person(question)
