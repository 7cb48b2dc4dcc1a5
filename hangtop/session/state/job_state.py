"""The latest state of everything, as streams write it and screens draw it.

One writer (the session's event loop), any number of readers in the same thread. Readers never change anything. What
moves is kept for about a minute (:mod:`hangtop.session.state.time_series`): what must be kept for longer is a
recording's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.fabric import Interface, InterfaceCounters, PortFacts, PortUse, TcpCounters
from collectors.samples.gpus import (
    FabricService,
    GpuFabric,
    GpuFacts,
    GpuFault,
    GpuProcess,
    GpuSample,
    NvlinkCounters,
    Topology,
)
from collectors.samples.host import Disk, HostFacts, HostSample
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogLines, StepCount
from collectors.samples.ranks import CpuWait, Helper, IdleLauncher, RankProcess, RankPulse
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Fault, Hello, SourceState, Tick
from hangtop.diagnosis.job import Inside, LinkWord, Look
from hangtop.session.state.changes import Changes
from hangtop.session.state.shares import NodeShares
from hangtop.session.state.time_series import SampleRing, TimeSeries

SATURATED = 0xFFFF_FFFF
"""Where perfquery's 32 bit counters stick: no growth says nothing there."""


@dataclass(slots=True)
class GpuState:
    """One GPU of one node."""

    index: int
    looks: TimeSeries[GpuSample]
    facts: GpuFacts | None = None
    processes: tuple[GpuProcess, ...] = ()
    fault: GpuFault | None = None
    """What nvidia-smi said instead of a row; gone again when a row comes."""
    nvlinks: dict[int, NvlinkCounters] = field(default_factory=dict)
    nvlink_grown: dict[int, dict[str, int]] = field(default_factory=dict)
    """Link → error counter → growth since the stream began."""


@dataclass(slots=True)
class PortState:
    """One HCA port of one node; counters since the stream began."""

    facts: PortFacts
    at: float = 0.0
    """When its counters were last known."""
    span: float = 0.0
    """Seconds from when they were known before to then."""
    source: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    """Those before; the same ones when they have stood still since."""
    first: Mapping[str, int] = field(default_factory=dict)
    """``counters[x] - first[x]`` is the growth while watched, also when the counter was reset meanwhile."""
    changes: tuple[Look[PortFacts], ...] = ()
    """The last states that it went through, oldest first."""

    def rate(self, name: str) -> float | None:
        """Growth per second of a counter up to ``at``; None while it is not known."""
        before, value = self.before.get(name), self.counters.get(name)
        if before is None or value is None or self.span <= 0.0:
            return None
        if self.source == "perfquery" and value >= SATURATED:
            return None
        # One that is less than before began again from zero.
        return (value - before if value >= before else value) / self.span


@dataclass(slots=True)
class InterfaceState:
    """One network interface of one node."""

    facts: Interface
    at: float = 0.0
    counters: InterfaceCounters | None = None
    received_per_s: float | None = None
    sent_per_s: float | None = None
    drops_grown: int = 0


@dataclass(slots=True)
class RankState:
    """One rank's process on one node."""

    node: str
    process: RankProcess
    looks: TimeSeries[RankPulse]
    helpers: dict[int, Helper] = field(default_factory=dict)
    gone_at: float | None = None
    log_at: float | None = None
    """When its logs last grew."""
    fresh_at: float | None = None
    """When they last had a line of a kind that was not there before."""
    launched: int = 0
    """Collectives that it was seen to launch while watched, by NCCL's log."""
    inside: Inside | None = None
    """What it tells by its page; None for one that shares none."""
    cpu_wait: CpuWait | None = None
    """How it gets its CPU; None for one that has not been seen to wait for one."""


@dataclass(slots=True)
class StepState:
    """The steps that one log tells of."""

    count: StepCount
    grown_at: float | None = None
    """When a step was last seen to be done while watched; None while none was."""
    told: tuple[tuple[float, float, int], ...] = ()
    """(when, number, steps seen to be done by then) of what was told last, oldest first; few, as each rank may log."""


@dataclass(slots=True)
class NodeState:
    """One node: the connection, and the latest of all its sources. Times are on this machine's clock."""

    name: str
    link: LinkWord = "connecting"
    why: str = ""
    since: float = 0.0
    next_try: float | None = None
    seen_at: float | None = None
    hello: Hello | None = None
    tick: Tick | None = None
    ticks: int = 0
    """Ticks of the present stream."""
    version: int = 0
    """Moves whenever anything here changes."""
    roster: int = 0
    """Moves whenever a rank, GPU, port or interface appears, ends or becomes another."""
    clock_offset: float | None = None
    """Seconds that the node's clock is ahead of this machine's; measured by the quickest answers."""
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    """Another mapping with each change: pictures hold it."""
    gpus: dict[int, GpuState] = field(default_factory=dict)
    gpu_rows: SampleRing[GpuSample] = field(default_factory=lambda: SampleRing(GpuSample))
    gpu_processes: tuple[GpuProcess, ...] = ()
    gpu_fault: GpuFault | None = None
    """A complaint of nvidia-smi that names no GPU."""
    ranks: dict[int, RankState] = field(default_factory=dict)
    """By pid."""
    pulses: SampleRing[RankPulse] = field(default_factory=lambda: SampleRing(RankPulse))
    unconfirmed: frozenset[int] = frozenset()
    """Pids known from before a reconnect that the new stream has not named yet."""
    answering: dict[int, float] = field(default_factory=dict)
    """Pid → session's time until which what a rank does is its answer to a question of ours: it writes a dump."""
    ports: dict[str, PortState] = field(default_factory=dict)
    """By ``device/port``."""
    interfaces: dict[str, InterfaceState] = field(default_factory=dict)
    tcp: Look[TcpCounters] | None = None
    segments_per_s: float | None = None
    retransmitted_per_s: float | None = None
    port_uses: dict[int, PortUse] = field(default_factory=dict)
    log_files: dict[str, LogFile] = field(default_factory=dict)
    steps: dict[str, StepState] = field(default_factory=dict)
    """By path of the log."""
    logs_read: float | None = None
    """What was in its logs by then has been told; None before it told anything of them."""
    host: HostFacts | None = None
    load: HostSample | None = None
    disks: dict[str, Disk] = field(default_factory=dict)
    fabric: dict[int, Look[GpuFabric]] = field(default_factory=dict)
    """By GPU: how far it has come in joining its NVLink fabric, and since when it is seen so."""
    fabric_services: dict[str, FabricService] = field(default_factory=dict)
    topology: Topology | None = None
    launchers: dict[int, IdleLauncher] = field(default_factory=dict)
    """Those that run without a rank, by pid."""
    faults: dict[str, Fault] = field(default_factory=dict)
    bad_lines: int = 0
    """Lines from the node that did not decode."""
    last_bad: str = ""
    communicators: int = 0
    """Entries of the job's progress that are this node's."""

    def answers(self, source: str) -> bool:
        """A source is well, or has not said how it is yet."""
        state = self.sources.get(source)
        return state is None or state.state == "ok"

    def has_heard(self, source: str) -> bool:
        """A source has said its first word: what it sees, or why it sees nothing.

        That of GPUs starts a program and is well until that has not responded for too long; its word is its first row.
        """
        state = self.sources.get(source)
        return state is not None and (source != "gpus" or state.state != "ok" or bool(self.gpus))


@dataclass(slots=True)
class JobState:
    """The whole picture."""

    started: float = 0.0
    nodes: dict[str, NodeState] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    log_lines: NodeShares[LogLines] = field(default_factory=NodeShares)
    """(node, lines) as they came."""
    log_serial: int = 0
    """Entries ever appended to ``log_lines``: readers keep their place by it."""
    events: NodeShares[LogEvent] = field(default_factory=NodeShares)
    """(node, event) with times on this machine's clock."""
    event_serial: int = 0
    """Entries ever appended to ``events``."""
    progress: dict[tuple[str, str, int], CommProgress] = field(default_factory=dict)
    """By (node, comm, rank in it)."""
    stacks: deque[tuple[str, StackDump]] = field(default_factory=lambda: deque(maxlen=65_536))
    recorders: dict[int, RecorderDump] = field(default_factory=dict)
    ras: deque[Look[RasReport]] = field(default_factory=lambda: deque(maxlen=16))


THINGS = {
    "ranks": 4096, "gpus": 256, "ports": 512, "interfaces": 2048, "port_uses": 256, "log_files": 2048, "steps": 2048,
    "disks": 256, "sources": 64, "faults": 256, "launchers": 64,
}  # fmt: skip
"""Things of one kind on one node; more than any node has."""


def surplus(node: NodeState) -> str:
    """Let go of what is too much on a node, the latest first; says what that was, empty for nothing."""
    told = []
    for name, most in THINGS.items():
        things = getattr(node, name)
        if len(things) > most:
            for key in list(things)[most:]:
                del things[key]
            told.append(f"{name.replace('_', ' ')} beyond {most:,}")
    if told:
        node.roster += 1
    return ", ".join(told)
