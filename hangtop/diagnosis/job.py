"""The job as the diagnosis sees it: one frozen picture, whether it comes live, from a recording or from a folder.

All times are seconds since the epoch on *this* machine's clock. ``None`` and empty tuples mean unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.probes import ProbeReport
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Node, Rank

if TYPE_CHECKING:
    from hangtop.diagnosis.traces import TracePicture

T = TypeVar("T")

DEFAULT_TIMEOUT = 600.0
"""Seconds after which torch gives up a collective of NCCL, unless it is told otherwise."""
OF_TIMEOUT = 0.5
"""Part of that time-out up to which a pause may be usual: who is told later cannot look at the job any more."""
OF_PAUSE = 2.0
"""So many times its usual pause is far outside what a job did before."""


@dataclass(frozen=True, slots=True)
class JobMotion:
    """What was seen to move over the last seconds of watching, by signs that cost the job nothing.

    A heartbeat line, a file lock that is tried again and a wait that wakes ten times a second are no motion.
    """

    moving: bool | None = None
    """True: proven, and ``proof`` says how. False: seen to stand still. None: neither."""
    proof: str = ""
    """For people: ``step 1,204 to 1,219 in 5 s``, ``8 ranks launching collectives``. Empty without."""
    last_step: int | None = None
    """The number of the last training step that a log of the job told."""
    last_step_at: float | None = None
    """When it was written."""
    step_s: float | None = None
    """Seconds that a step took at the longest, of the last few that were seen; None where no log told of two."""
    stands_since: float | None = None
    """When the last motion was seen, or the last step was written where no rank has moved while watched; None while
    something moves, or no rank is in view."""
    by_gpus: bool = False
    """What the GPUs draw is the only sign of motion."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is known about one job at one moment."""

    now: float
    watched: float
    """Seconds over which it was watched; 0 for a folder of logs."""
    live: bool
    """False for logs after the fact: silence then means nothing."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    ranks: tuple[Rank, ...] = ()
    """By rank, the newest process of each rank."""
    world_size: int | None = None
    stacks: tuple[StackDump, ...] = ()
    """Every dump at hand, oldest first; several per rank when several samples were taken."""
    stack_ranks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(node, pid of the dump's owner) → global rank. The node of a dump is in ``stack_nodes``."""
    stack_nodes: tuple[str, ...] = ()
    """Node of each dump, parallel to ``stacks``."""
    events: tuple[LogEvent, ...] = ()
    """Typed log and kernel events of all sources, in order of time where they have one."""
    event_nodes: tuple[str, ...] = ()
    """Node that each event came from, parallel to ``events``; empty for a folder of logs."""
    progress: tuple[CommProgress, ...] = ()
    recorders: tuple[RecorderDump, ...] = ()
    ras: tuple[Look[RasReport], ...] = ()
    """RAS answers, oldest first."""
    traces: TracePicture | None = None
    """What the profiler traces of its ranks say together."""
    probed: tuple[ProbeReport, ...] = ()
    """Probes of collectives that were asked for in this session, oldest first."""
    patience: float = 60.0
    """Seconds that a wait may take before it may be called a hang, live."""
    stood_still: float | None = None
    """Seconds for which at least half of the living ranks in view have shown no cheap sign of progress (context
    switches, I/O, logs, collective counts, GPU power). CPU time alone is none: a rank that waits in NCCL spins, and the
    one that all wait for may be busy. None: unknown."""
    usual_pause: float | None = None
    """The longest such pause that this job was seen to take where it stands now and come back from; it fades."""
    pauses: tuple[tuple[float, float], ...] = ()
    """When the last long pauses began and ended, oldest first: looks within one of them are of one wait."""
    motion: JobMotion = JobMotion()
    """What moved lately, and what proves it."""
    collective_timeout: float | None = None
    """Seconds after which the job itself gives up a collective, as far as its commands or watchdogs tell."""
    others: tuple[Rank, ...] = ()
    """Living processes with the same rank numbers that belong to another or an earlier run."""
    bystanders: tuple[Rank, ...] = ()
    """Living processes without a number that belong to something else: notebooks, servers, jobs of others."""
    unasked: bool = False
    """Whether this machine is watched because no node was named: a job may well run elsewhere."""
    _on: dict[str, list[Rank]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _said: dict[str, list[tuple[str, LogEvent]]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _known: dict[Callable[[Job], Any], Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Sort ranks by node and events by kind: a rule that went through all of them for every node would be slow."""
        for rank in self.ranks:
            self._on.setdefault(rank.node, []).append(rank)
        for node, event in zip_longest(self.event_nodes, self.events, fillvalue=""):
            if not isinstance(event, str):
                self._said.setdefault(event.kind, []).append((node, event))

    def ranks_of(self, node: str) -> Sequence[Rank]:
        """Ranks whose process was last seen on this node, in the order of ``ranks``."""
        return self._on.get(node, ())

    def events_of(self, kind: str) -> Sequence[tuple[str, LogEvent]]:
        """Events of one kind in their order, each with the node that it came from (empty for a folder of logs)."""
        return self._said.get(kind, ())

    def once(self, work: Callable[[Job], T]) -> T:
        """What ``work`` makes of this picture: worked out for the first rule that asks, and the same for all others."""
        if work not in self._known:
            self._known[work] = work(self)
        known: T = self._known[work]
        return known

    @property
    def unnumbered(self) -> tuple[Rank, ...]:
        """Living processes of which nobody knows which rank they are, bystanders too, by node and pid."""
        found = [rank for rank in (*self.ranks, *self.bystanders) if rank.rank < 0 and rank.gone_at is None]
        return tuple(sorted(found, key=lambda rank: (rank.node, rank.process.pid)))

    @property
    def alarm_after(self) -> float:
        """Seconds of standing still that are far outside what this job did before and the user's patience."""
        return alarm_after(self.patience, self.usual_pause, self.collective_timeout)


def alarm_after(patience: float, usual_pause: float | None, timeout: float | None) -> float:
    """Seconds of standing still that are far outside what a job did before and the user's patience."""
    usual = min(OF_PAUSE * (usual_pause or 0.0), OF_TIMEOUT * (timeout or DEFAULT_TIMEOUT))
    return max(patience, usual)
