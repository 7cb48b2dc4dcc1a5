"""One node of a job: its connection, its devices and its ranks, each by its latest samples.

The session updates these objects as samples arrive, screens draw them, and the diagnosis reads a snapshot
(:meth:`Node.copied`), live, from a recording or from a folder. All times are seconds since the epoch on *this*
machine's clock. ``None`` and empty tables mean unknown: a rule may draw conclusions from a source's
:class:`~collectors.samples.stream.SourceState`, never from the mere absence of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar, Literal, NamedTuple

from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuSample, NvlinkCounters
from collectors.samples.host import HostSample, Interface, PortFacts, Reading
from collectors.samples.logs import LogFile, StepCount
from collectors.samples.ranks import Helper, IdleLauncher, InsidePulse, InsideResult, RankProcess, RankPulse
from collectors.samples.stream import Fault, Hello, SourceState, Tick
from hangtop.diagnosis.series import Timed, TimedSeries

LinkWord = Literal["connecting", "live", "limited", "stale", "lost", "offline"]


@dataclass(slots=True)
class Gpu:
    """One GPU: its latest samples and its processes."""

    index: int
    facts: GpuFacts | None = None
    samples: TimedSeries[GpuSample] = field(default_factory=TimedSeries)
    ecc_first: int | None = None
    """Uncorrectable memory errors with which watching began; None if unknown."""
    processes: tuple[GpuProcess, ...] = ()
    fault: GpuFault | None = None
    """nvidia-smi's error in place of a sample; cleared by the next sample."""
    nvlinks: dict[int, NvlinkCounters] = field(default_factory=dict)
    """By link, the newest …"""
    nvlinks_first: dict[int, NvlinkCounters] = field(default_factory=dict)
    """… and those with which watching began."""

    def copied(self, heard: float | None) -> Gpu:
        """A copy; ``heard`` is when its node was last heard."""
        return replace(self, samples=self.samples.copied(heard), nvlinks=dict(self.nvlinks))


@dataclass(slots=True)
class Counted:
    """Counters of one thing: now, at the start of the watch, and before.

    When a counter is reset, its growth until then is subtracted from ``first``. Tables are replaced, not changed.
    """

    traffic: ClassVar[tuple[str, str]] = "", ""
    """Names of the counters of bytes in and out."""
    counters: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0
    """Time of ``counters``."""
    span: float = 0.0
    """Seconds between ``before`` and ``counters``."""
    source: str = ""
    before: Mapping[str, int] = field(default_factory=dict)
    """The counters before that; equal to ``counters`` if they have not moved since."""

    @property
    def received_per_s(self) -> float | None:
        """Bytes received per second."""
        return self.rate(self.traffic[0])

    @property
    def sent_per_s(self) -> float | None:
        """Bytes sent per second."""
        return self.rate(self.traffic[1])

    @property
    def grown(self) -> dict[str, int]:
        """Growth of each counter that moved since the watch began."""
        return {name: now - was for name, now in self.counters.items() if (was := self.first.get(name, now)) != now}

    def rate(self, name: str) -> float | None:
        """Growth of a counter per second over ``span``; None if unknown."""
        before, value = self.before.get(name), self.counters.get(name)
        if before is None or value is None or self.span <= 0.0:
            return None
        return (value - before if value >= before else value) / self.span  # a counter that fell was reset to zero


@dataclass(slots=True)
class Port(Counted):
    """One HCA port and its past states, oldest first."""

    traffic = "port_rcv_data", "port_xmit_data"
    facts: PortFacts = field(kw_only=True)
    changes: tuple[Timed[PortFacts], ...] = ()


@dataclass(slots=True)
class NetworkInterface(Counted):
    """One network interface."""

    traffic = "received", "sent"
    facts: Interface = field(kw_only=True)

    @property
    def drops_grown(self) -> int:
        """Packets dropped during the watch."""
        return sum(by for name, by in self.grown.items() if name.endswith("_drops"))


class Inside(NamedTuple):
    """What a rank that called ``hangtop.inside.start()`` reports about itself."""

    pulse: InsidePulse
    """Its step and phase, valid until its next report."""
    results: tuple[InsideResult, ...] = ()
    """The latest result of each check in which it took part."""


@dataclass(slots=True)
class Rank:
    """One rank's process on one node."""

    node: str
    process: RankProcess
    pulses: TimedSeries[RankPulse] = field(default_factory=TimedSeries)
    helpers: dict[int, Helper] = field(default_factory=dict)
    """Processes that it started, by pid."""
    gone_at: float | None = None
    """When its process was seen to be gone."""
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs that its processes use, as of the snapshot."""
    inside: Inside | None = None
    """Its own report; None for a rank without ``hangtop.inside``."""
    log_at: float | None = None
    """When its logs last grew."""
    launched: int = 0
    """Collectives launched during the watch, by NCCL's log."""
    answers_until: float = -inf
    """Time until which its activity may be the answer to a question of hangtop: a dump that it writes, a stop."""

    @property
    def rank(self) -> int:
        """Global rank; an :class:`~hangtop.diagnosis.unnumbered.Unnumbered` if it is unknown."""
        return self.process.rank

    @property
    def own_pid(self) -> int:
        """The pid that NCCL, RAS and torch use: in a container it differs from the node's."""
        return self.process.own_pid or self.process.pid

    @property
    def whole_on(self) -> str:
        """The node, if the rank's run of several ranks is on it alone, as its LOCAL_WORLD_SIZE says; else empty."""
        size = self.process.world_size or 0
        return self.node if size > 1 and size == self.process.local_world_size else ""

    @property
    def waited_for_cpu(self) -> int:
        """Per cent of the time that it was runnable without a CPU."""
        return 0 if self.pulses.newest is None else self.pulses.newest.waited or 0

    def copied(self, heard: float | None, gpus: tuple[int, ...]) -> Rank:
        """A copy with these GPUs; ``heard`` is when its node was last heard."""
        pulses = self.pulses.copied(heard if self.gone_at is None else None)
        return replace(self, pulses=pulses, helpers=dict(self.helpers), gpus=gpus)


@dataclass(slots=True)
class Steps:
    """The training steps that one log counts."""

    count: StepCount
    grown_at: float | None = None
    """When a step was last seen to complete during the watch; None before the first."""
    lines: tuple[tuple[float, float, int], ...] = ()
    """(time, step number, steps completed by then) of the last lines, oldest first; few, as each rank may log."""


@dataclass(slots=True)
class Node:
    """One node: its connection and the latest samples of all its sources."""

    name: str
    link: LinkWord = "live"
    why: str = ""
    since: float = 0.0
    """When the link entered this state."""
    refused: bool = False
    """It does not let hangtop log in."""
    seen_at: float | None = None
    """When its last sample came."""
    hello: Hello | None = None
    tick: Tick | None = None
    ticks: int = 0
    """Number of ticks of the present stream."""
    roster: int = 0
    """Changes whenever a rank, GPU, port or interface appears, ends or is replaced."""
    clock_offset: float | None = None
    """Seconds that the node's clock is ahead of this machine's, by the fastest answers."""
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    """By name; a new mapping with each change."""
    gpus: dict[int, Gpu] = field(default_factory=dict)
    """By index, in order."""
    gpu_processes: tuple[GpuProcess, ...] = ()
    gpu_fault: GpuFault | None = None
    """An nvidia-smi error that belongs to no known GPU."""
    ranks: dict[int, Rank] = field(default_factory=dict)
    """By pid; ended ones too."""
    unconfirmed: frozenset[int] = frozenset()
    """Pids known from before a reconnect that the new stream has not named yet."""
    ports: dict[str, Port] = field(default_factory=dict)
    """By ``device/port``."""
    interfaces: dict[str, NetworkInterface] = field(default_factory=dict)
    tcp: Counted = field(default_factory=Counted)
    log_files: dict[str, LogFile] = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)
    """By path of the log."""
    logs_read: float = -inf
    """Time up to which its logs were read and reported; ``-inf`` before the first report."""
    host: HostSample | None = None
    readings: dict[tuple[str, str], Timed[Reading]] = field(default_factory=dict)
    """By source and thing; the time of a sample is since when the value holds."""
    launchers: dict[int, IdleLauncher] = field(default_factory=dict)
    """Launchers without any rank on the node, by pid."""
    faults: dict[str, Fault] = field(default_factory=dict)
    bad_lines: int = 0
    """Lines from the node that did not decode."""
    last_bad: str = ""
    communicators: int = 0
    """Number of entries of the job's progress from this node."""

    @property
    def segments_per_s(self) -> float | None:
        """TCP segments sent per second."""
        return self.tcp.rate("OutSegs")

    @property
    def retransmitted_per_s(self) -> float | None:
        """TCP segments retransmitted per second."""
        return self.tcp.rate("RetransSegs")

    @property
    def connected(self) -> bool:
        """Whether samples arrive now."""
        return self.link in ("live", "limited")

    @property
    def readable(self) -> bool:
        """Whether its latest values count: samples arrive now, or all of them came from files."""
        return self.connected or self.link == "offline"

    @property
    def interface_facts(self) -> list[Interface]:
        """The static facts of its network interfaces."""
        return [interface.facts for interface in self.interfaces.values()]

    def readings_of(self, source: str) -> list[Timed[Reading]]:
        """What a source reads of each thing, with since when it holds."""
        return [sample for (of_source, _), sample in self.readings.items() if of_source == source]

    def answers(self, source: str) -> bool:
        """Whether a source is ok, or has not reported its state yet."""
        state = self.sources.get(source)
        return state is None or state.state == "ok"

    def has_heard(self, source: str) -> bool:
        """Whether a source has reported data, or why it has none.

        The GPU source is ok as soon as it has started nvidia-smi, so it counts from its first GPU on.
        """
        state = self.sources.get(source)
        return state is not None and (source != "gpus" or state.state != "ok" or bool(self.gpus))

    def gpu_users(self) -> dict[int, tuple[int, ...]]:
        """Indices of the GPUs that each rank or one of its child processes uses, by the rank's pid."""
        users: dict[int, set[int]] = {}
        for gpu in self.gpus.values():
            for process in gpu.processes:
                users.setdefault(process.pid, set()).add(gpu.index)
        families = {pid: (pid, *rank.helpers) for pid, rank in self.ranks.items()}
        return {pid: tuple(sorted({gpu for p in pids for gpu in users.get(p, ())})) for pid, pids in families.items()}

    def copied(self) -> Node:
        """A snapshot that the session no longer changes."""
        heard = self.seen_at if self.connected else None
        gpus_heard, ranks_heard = (heard if self.answers(source) else None for source in ("gpus", "ranks"))
        users = self.gpu_users()
        return replace(
            self,
            gpus={index: gpu.copied(gpus_heard) for index, gpu in self.gpus.items()},
            ranks={pid: rank.copied(ranks_heard, users[pid]) for pid, rank in self.ranks.items()},
            ports={name: replace(port) for name, port in self.ports.items()},
            interfaces={name: replace(interface) for name, interface in self.interfaces.items()},
            tcp=replace(self.tcp),
            readings=dict(self.readings),
            launchers=dict(self.launchers),
        )
