"""One node of a job: its connection, its devices and its ranks, each by the latest that its sources said.

The session writes these objects as samples come, screens draw them, and the diagnosis reads a copy of one moment
(:meth:`Node.copied`), whether it comes live, from a recording or from a folder. All times are seconds since the epoch
on *this* machine's clock. ``None`` and empty tables mean unknown: a rule may conclude something from a source's
:class:`~collectors.samples.stream.SourceState`, never from the mere absence of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from collectors.samples.fabric import Interface, PortFacts
from collectors.samples.gpus import (
    GpuFacts,
    GpuFault,
    GpuProcess,
    GpuSample,
    NvlinkCounters,
    Topology,
)
from collectors.samples.host import HostSample, Reading
from collectors.samples.inside import InsidePulse, InsideResult
from collectors.samples.logs import LogFile, StepCount
from collectors.samples.ranks import Helper, IdleLauncher, RankProcess, RankPulse
from collectors.samples.stream import Fault, Hello, SourceState, Tick
from hangtop.diagnosis.looks import Look, Looks

LinkWord = Literal["connecting", "live", "limited", "stale", "lost", "offline"]


@dataclass(slots=True)
class Gpu:
    """One GPU: the latest rows, and who is on it."""

    index: int
    facts: GpuFacts | None = None
    looks: Looks[GpuSample] = field(default_factory=Looks)
    processes: tuple[GpuProcess, ...] = ()
    fault: GpuFault | None = None
    """What nvidia-smi said instead of a row; gone again when a row comes."""
    nvlinks: dict[int, NvlinkCounters] = field(default_factory=dict)
    nvlink_grown: dict[int, dict[str, int]] = field(default_factory=dict)
    """By link: growth of ``replay_errors``, ``recovery_errors`` and ``crc_errors`` while it was watched."""

    def copied(self, heard: float | None) -> Gpu:
        """The GPU of this moment, whose node was heard at a time."""
        grown = {link: dict(each) for link, each in self.nvlink_grown.items()}
        return replace(self, looks=self.looks.copied(heard), nvlinks=dict(self.nvlinks), nvlink_grown=grown)


@dataclass(slots=True)
class Counted:
    """Counters of one thing: now, when watching began, and before.

    A counter that was reset meanwhile has its growth from before taken off ``first``. Tables are replaced, not changed.
    """

    traffic: ClassVar[tuple[str, str]] = "", ""
    """Names of the counters of bytes in and out."""
    counters: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0
    """When its counters were last known."""
    span: float = 0.0
    """Seconds from when they were known before to then."""
    source: str = ""
    before: Mapping[str, int] = field(default_factory=dict)
    """Counters as they were known before; the same ones when they have stood still since."""

    @property
    def received_per_s(self) -> float | None:
        """Bytes."""
        return self.rate(self.traffic[0])

    @property
    def sent_per_s(self) -> float | None:
        """Bytes."""
        return self.rate(self.traffic[1])

    @property
    def grown(self) -> dict[str, int]:
        """Counters that moved since watching began, and by how much."""
        return {name: now - was for name, now in self.counters.items() if (was := self.first.get(name, now)) != now}

    def rate(self, name: str) -> float | None:
        """Growth per second of a counter up to ``at``; None while it is not known."""
        before, value = self.before.get(name), self.counters.get(name)
        if before is None or value is None or self.span <= 0.0:
            return None
        # One that is less than before began again from zero.
        return (value - before if value >= before else value) / self.span


@dataclass(slots=True)
class Port(Counted):
    """One HCA port, and the states it went through, oldest first."""

    traffic = "port_rcv_data", "port_xmit_data"
    facts: PortFacts = field(kw_only=True)
    changes: tuple[Look[PortFacts], ...] = ()


@dataclass(slots=True)
class NetworkInterface(Counted):
    """One network interface."""

    traffic = "received", "sent"
    facts: Interface = field(kw_only=True)

    @property
    def drops_grown(self) -> int:
        """Packets that it dropped while watched."""
        return sum(by for name, by in self.grown.items() if name.endswith("_drops"))


class Inside(NamedTuple):
    """What a rank says of itself that called ``hangtop.inside.start()``."""

    pulse: InsidePulse
    """Its step and phase; it stays so until it says another."""
    results: tuple[InsideResult, ...] = ()
    """The latest of each check that it took part in."""


@dataclass(slots=True)
class Rank:
    """One rank's process on one node."""

    node: str
    process: RankProcess
    looks: Looks[RankPulse] = field(default_factory=Looks)
    helpers: dict[int, Helper] = field(default_factory=dict)
    """Processes that it started, by pid."""
    gone_at: float | None = None
    """When it was seen to be no longer there."""
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs that it is on, as of the moment that was copied."""
    inside: Inside | None = None
    """What it tells by its page; None for one that shares none."""
    log_at: float | None = None
    """When its logs last grew."""
    launched: int = 0
    """Collectives that it was seen to launch while watched, by NCCL's log."""

    @property
    def rank(self) -> int:
        """Global; an :class:`~hangtop.diagnosis.unnumbered.Unnumbered` where it is not known."""
        return self.process.rank

    @property
    def own_pid(self) -> int:
        """By which NCCL, RAS and torch know its process: in a container another one than the node's."""
        return self.process.own_pid or self.process.pid

    @property
    def waited_for_cpu(self) -> int:
        """Per cent of the time in which it was ready to run and had no CPU."""
        return 0 if self.looks.newest is None else self.looks.newest.waited or 0

    def copied(self, heard: float | None, gpus: tuple[int, ...]) -> Rank:
        """The rank of this moment on these GPUs, whose node was heard at a time."""
        looks = self.looks.copied(heard if self.gone_at is None else None)
        return replace(self, looks=looks, helpers=dict(self.helpers), gpus=gpus)


@dataclass(slots=True)
class Steps:
    """The steps that one log tells of."""

    count: StepCount
    grown_at: float | None = None
    """When a step was last seen to be done while watched; None while none was."""
    told: tuple[tuple[float, float, int], ...] = ()
    """(when, number, steps seen to be done by then) of what was told last, oldest first; few, as each rank may log."""


@dataclass(slots=True)
class Node:
    """One node: the connection, and the latest of all its sources."""

    name: str
    link: LinkWord = "live"
    why: str = ""
    since: float = 0.0
    """When the link came into this state."""
    seen_at: float | None = None
    """When its last sample came."""
    hello: Hello | None = None
    tick: Tick | None = None
    ticks: int = 0
    """Ticks of the present stream."""
    roster: int = 0
    """Moves whenever a rank, GPU, port or interface appears, ends or becomes another."""
    clock_offset: float | None = None
    """Seconds that the node's clock is ahead of this machine's; measured by the quickest answers."""
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    """Another mapping with each change."""
    gpus: dict[int, Gpu] = field(default_factory=dict)
    """By index, in order."""
    gpu_processes: tuple[GpuProcess, ...] = ()
    gpu_fault: GpuFault | None = None
    """A complaint of nvidia-smi that names no GPU."""
    ranks: dict[int, Rank] = field(default_factory=dict)
    """By pid; ended ones too."""
    unconfirmed: frozenset[int] = frozenset()
    """Pids known from before a reconnect that the new stream has not named yet."""
    answering: dict[int, float] = field(default_factory=dict)
    """Pid → session's time until which what a rank does may be for a question of ours: a dump, or a stop."""
    ports: dict[str, Port] = field(default_factory=dict)
    """By ``device/port``."""
    interfaces: dict[str, NetworkInterface] = field(default_factory=dict)
    tcp: Counted = field(default_factory=Counted)
    log_files: dict[str, LogFile] = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)
    """By path of the log."""
    logs_read: float | None = None
    """What was in its logs by then has been told; None before it told anything of them."""
    host: HostSample | None = None
    readings: dict[tuple[str, str], Look[Reading]] = field(default_factory=dict)
    """By source and thing, and since when it is seen so."""
    topology: Topology | None = None
    """How its GPUs and NICs are connected."""
    launchers: dict[int, IdleLauncher] = field(default_factory=dict)
    """Those that run there while no rank does, by pid."""
    faults: dict[str, Fault] = field(default_factory=dict)
    bad_lines: int = 0
    """Lines from the node that did not decode."""
    last_bad: str = ""
    communicators: int = 0
    """Entries of the job's progress that are this node's."""

    @property
    def segments_per_s(self) -> float | None:
        """TCP segments that it sends."""
        return self.tcp.rate("OutSegs")

    @property
    def retransmitted_per_s(self) -> float | None:
        """TCP segments that it sends again."""
        return self.tcp.rate("RetransSegs")

    @property
    def interface_facts(self) -> list[Interface]:
        """What does not move in its network interfaces."""
        return [interface.facts for interface in self.interfaces.values()]

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

    def gpu_users(self) -> dict[int, tuple[int, ...]]:
        """GPUs that each rank, or a process that it started, is on, by the rank's pid."""
        users: dict[int, set[int]] = {}
        for gpu in self.gpus.values():
            for process in gpu.processes:
                users.setdefault(process.pid, set()).add(gpu.index)
        pids = {pid: (pid, *rank.helpers) for pid, rank in self.ranks.items()}
        return {pid: tuple(sorted(set().union(*(users.get(one, ()) for one in own)))) for pid, own in pids.items()}

    def copied(self) -> Node:
        """All of this moment, of which the session changes nothing any more."""
        heard = self.seen_at if self.link in {"live", "limited"} else None
        gpus_heard = heard if self.answers("gpus") else None
        ranks_heard = heard if self.answers("ranks") else None
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
