"""The job as the diagnosis sees it: one frozen snapshot, from live samples, a recording or a folder.

All times are seconds since the epoch on *this* machine's clock. ``None`` and empty tuples mean unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.probes import ProbeReport
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.series import Timed

if TYPE_CHECKING:
    from hangtop.diagnosis.traces import TracePicture

T = TypeVar("T")

DEFAULT_TIMEOUT = 600.0
"""torch's default time-out of an NCCL collective, seconds."""
OF_TIMEOUT = 0.5
"""Largest share of that time-out by which a usual pause may delay the alarm: later the job may be gone."""
OF_PAUSE = 2.0
"""Multiple of the usual pause from which a pause is far outside the job's past."""


@dataclass(frozen=True, slots=True)
class JobMotion:
    """Motion of the job over the last seconds of watching, by signs that cost the job nothing.

    Heartbeat lines, retries of a file lock and waits that wake ten times a second are no motion.
    """

    moving: bool | None = None
    """True: motion is proven by ``proof``. False: the job was seen to stand still. None: neither."""
    proof: str = ""
    """For people: ``step 1,204 to 1,219 in 5 s``, ``8 ranks launching collectives``. Empty without a proof."""
    last_step: int | None = None
    """Number of the last training step in the job's logs."""
    last_step_at: float | None = None
    """When that step was logged."""
    step_s: float | None = None
    """Duration of the longest of the last few steps, seconds; None unless a log showed two steps."""
    stands_since: float | None = None
    """Time of the last motion, or of the last logged step if no rank has moved during the watch; None while something
    moves, or without a rank in view."""
    by_gpus: bool = False
    """GPU power is the only sign of motion."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is known about one job at one moment."""

    now: float
    watched: float
    """Length of the watch in seconds; 0 for a folder of logs."""
    live: bool
    """False for logs that are read after the fact: silence then means nothing."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    ranks: tuple[Rank, ...] = ()
    """Sorted by rank; the newest process of each rank."""
    world_size: int | None = None
    stacks: tuple[StackDump, ...] = ()
    """Every available dump, oldest first; several per rank if several samples were taken."""
    stack_ranks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(node, pid of the dump's owner) → global rank. The node of a dump is in ``stack_nodes``."""
    stack_nodes: tuple[str, ...] = ()
    """Node of each dump, parallel to ``stacks``."""
    events: tuple[LogEvent, ...] = ()
    """Typed log and kernel events of all sources, sorted by time where the time is known."""
    event_nodes: tuple[str, ...] = ()
    """Node that each event came from, parallel to ``events``; empty for a folder of logs."""
    progress: tuple[CommProgress, ...] = ()
    recorders: tuple[RecorderDump, ...] = ()
    ras: tuple[Timed[RasReport], ...] = ()
    """RAS answers, oldest first."""
    traces: TracePicture | None = None
    """The profiler traces of all ranks, compared."""
    probed: tuple[ProbeReport, ...] = ()
    """Probes of collectives that ran in this session, oldest first."""
    patience: float = 60.0
    """Seconds before a live wait may be called a hang."""
    stood_still: float | None = None
    """Seconds for which at least half of the living ranks in view have shown no cheap sign of progress (context
    switches, I/O, logs, collective counts, GPU power). CPU time alone is no such sign: a rank that waits in NCCL spins,
    and the rank that all wait for may be busy. None: unknown."""
    usual_pause: float | None = None
    """The longest such pause that the job has recovered from at its present point, seconds; it fades."""
    pauses: tuple[tuple[float, float], ...] = ()
    """Start and end of the last long pauses, oldest first: samples within one pause show one wait."""
    motion: JobMotion = JobMotion()
    """Recent motion and its proof."""
    collective_timeout: float | None = None
    """The job's own time-out of a collective in seconds, if its commands or watchdogs show it."""
    others: tuple[Rank, ...] = ()
    """Living processes with the same rank numbers that belong to another or an earlier run."""
    bystanders: tuple[Rank, ...] = ()
    """Living processes without a rank number that belong to something else: notebooks, servers, other users' jobs."""
    unasked: bool = False
    """This machine is watched only because no node was named: the job may run elsewhere."""
    _by_node: dict[str, list[Rank]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _by_kind: dict[str, list[tuple[str, LogEvent]]] = field(init=False, repr=False, compare=False, default_factory=dict)
    known: dict[Callable[[Job], Any], Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Results of functions under :func:`once`."""

    def __post_init__(self) -> None:
        """Index ranks by node and events by kind, so that rules need not scan all of them for every node."""
        for rank in self.ranks:
            self._by_node.setdefault(rank.node, []).append(rank)
        for node, event in zip_longest(self.event_nodes, self.events, fillvalue=""):
            if not isinstance(event, str):
                self._by_kind.setdefault(event.kind, []).append((node, event))

    def ranks_of(self, node: str) -> Sequence[Rank]:
        """Ranks whose process was last seen on this node, in the order of ``ranks``."""
        return self._by_node.get(node, ())

    def events_of(self, kind: str) -> Sequence[tuple[str, LogEvent]]:
        """Events of one kind in their order, each with the node that it came from (empty for a folder of logs)."""
        return self._by_kind.get(kind, ())

    @property
    def unnumbered(self) -> tuple[Rank, ...]:
        """Living processes whose rank is unknown, bystanders included, by node and pid."""
        unknown = [rank for rank in (*self.ranks, *self.bystanders) if rank.rank < 0 and rank.gone_at is None]
        return tuple(sorted(unknown, key=lambda rank: (rank.node, rank.process.pid)))

    @property
    def alarm_after(self) -> float:
        """Seconds without motion that exceed the user's patience and are far outside this job's past."""
        return alarm_after(self.patience, self.usual_pause, self.collective_timeout)


def once(work: Callable[[Job], T]) -> Callable[[Job], T]:
    """Decorator: compute the function once per snapshot of a job."""

    @wraps(work, updated=())
    def kept(job: Job) -> T:
        if work not in job.known:
            job.known[work] = work(job)
        result: T = job.known[work]
        return result

    return kept


def alarm_after(patience: float, usual_pause: float | None, timeout: float | None) -> float:
    """Seconds without motion that exceed the user's patience and are far outside a job's past."""
    usual = min(OF_PAUSE * (usual_pause or 0.0), OF_TIMEOUT * (timeout or DEFAULT_TIMEOUT))
    return max(patience, usual)
