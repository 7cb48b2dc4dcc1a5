"""The frozen :class:`~hangtop.diagnosis.job.Job` of a moving :class:`~hangtop.session.state.job_state.JobState`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.gpus import GpuSample
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.probes import ProbeReport
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Gpu, Job, JobMotion, Look, NetworkUse, Node, Port, Rank
from hangtop.diagnosis.roster import told_size
from hangtop.diagnosis.waits.patience import own_timeout
from hangtop.session.job_selection import select_job
from hangtop.session.state.job_state import GpuState, JobState, NodeState, PortState, RankState
from hangtop.session.state.time_series import SampleRing, TimeSeries

if TYPE_CHECKING:
    from hangtop.diagnosis.traces import TracePicture

T = TypeVar("T", bound=NamedTuple)

NAMELESS = "node"
"""The node of what saved files say that name none: it is shown where they tell of its devices."""
HELD = 0.5
"""Seconds after which an unchanged value is worth a second look of the same."""
STACKS_KEPT = 90.0
"""Seconds for which a dump is at hand while the job moves: nine looks of those that are taken every ten seconds. While
it stands still, all since then are."""


@dataclass(frozen=True, slots=True)
class SnapshotContext:
    """What a snapshot cannot read from the state: the moment, and what the session knows of it."""

    now: float
    watched: float
    live: bool
    patience: float
    stood_still: float | None = None
    usual_pause: float | None = None
    pauses: tuple[tuple[float, float], ...] = ()
    motion: JobMotion = field(default_factory=JobMotion)
    unasked: bool = False


NodeSnapshot: TypeAlias = tuple[Node, tuple[Rank, ...]]
"""One node and its ranks, ended ones too."""


def node_snapshot(state: NodeState) -> NodeSnapshot:
    """One node of this moment, copied."""
    return _node(state), _ranks(state)


def job_snapshot(
    state: JobState, context: SnapshotContext, nodes: Mapping[str, NodeSnapshot] | None = None
) -> JobSnapshot:
    """Everything of one moment, copied: the :class:`Job` may be made of it in another thread.

    ``nodes`` are those copied a moment ago, where copying thousands at once would be felt.
    """
    return JobSnapshot(
        context=context,
        nodes={name: node_snapshot(node) for name, node in state.nodes.items()} if nodes is None else nodes,
        stacks=_recent(state.stacks, context),
        events=tuple(state.events),
        progress=tuple(state.progress.values()),
        recorders=tuple(state.recorders.values()),
        ras=tuple(state.ras),
        world_size=state.world_size,
        stack_ranks=state.stack_ranks,
        passed=state.passed,
    )


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """What a :class:`Job` is made of."""

    context: SnapshotContext
    nodes: Mapping[str, NodeSnapshot]
    stacks: Sequence[tuple[str, StackDump]]
    events: Sequence[tuple[str, LogEvent]]
    progress: tuple[CommProgress, ...]
    recorders: tuple[RecorderDump, ...]
    ras: tuple[Look[RasReport], ...]
    world_size: int | None = None
    """As saved files tell it; the same for the next two."""
    stack_ranks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    passed: tuple[LogEvent, ...] = ()

    def job(self, probed: tuple[ProbeReport, ...] = (), traces: TracePicture | None = None) -> Job:
        """Make the job; ``probed`` and ``traces`` are what the session was told when it asked."""
        context = self.context
        ranks, others, bystanders, ended = select_job(rank for _, ranks in self.nodes.values() for rank in ranks)
        events = _of_the_job(self.events, ranks, (*others, *ended))
        home = _named if not context.live else str
        return Job(
            now=context.now,
            watched=context.watched if context.live else 0.0,
            live=context.live,
            nodes=self._nodes(),
            ranks=ranks,
            world_size=told_size(rank.process.world_size for rank in ranks) or self.world_size,
            stacks=tuple(dump for _, dump in self.stacks),
            stack_ranks=self.stack_ranks or self._whose_stacks(ranks),
            stack_nodes=tuple(home(node) for node, _ in self.stacks),
            events=tuple(event for _, event in events),
            event_nodes=tuple(home(node) for node, _ in events),
            passed=self.passed,
            progress=self.progress,
            recorders=self.recorders,
            ras=self.ras,
            patience=context.patience,
            stood_still=context.stood_still,
            usual_pause=context.usual_pause,
            pauses=context.pauses,
            motion=context.motion,
            collective_timeout=own_timeout(
                (rank.process.command for rank in ranks),
                (e.data.get("timeout_ms") for _, e in events if e.kind == "torch.watchdog_timeout"),
            ),
            others=others,
            bystanders=bystanders,
            unasked=context.unasked,
            probed=probed,
            traces=traces,
        )

    def _nodes(self) -> Mapping[str, Node]:
        """All of them, but for one without a name of which nothing is known."""
        nodes = {name: node for name, (node, _) in self.nodes.items()}
        if not self.context.live and NAMELESS in nodes:
            node = nodes[NAMELESS]
            of_machine = any(name == NAMELESS and event.kind.startswith("kernel.") for name, event in self.events)
            if not (node.gpus or node.ports or node.gpu_fault or of_machine):
                del nodes[NAMELESS]
        return nodes

    def _whose_stacks(self, ranks: Sequence[Rank]) -> Mapping[tuple[str, int], int]:
        """Ranks of which there are dumps, by node and pid: in a job that moves few or none were looked at."""
        dumped = {(node, dump.rank_pid) for node, dump in self.stacks}
        return {key: rank.rank for rank in ranks if (key := (rank.node, rank.process.pid)) in dumped} if dumped else {}


def _named(node: str) -> str:
    return "" if node == NAMELESS else node


def _of_the_job(
    events: Sequence[tuple[str, LogEvent]], ranks: Iterable[Rank], unrelated: Iterable[Rank]
) -> Sequence[tuple[str, LogEvent]]:
    """Those that do not stand in a file which ranks of other runs alone write."""
    theirs = _written(unrelated)
    theirs -= _written(ranks) if theirs else set()
    return [told for told in events if (told[0], told[1].source) not in theirs] if theirs else events


def _written(ranks: Iterable[Rank]) -> set[tuple[str, str]]:
    """(node, path) of the files that these processes write."""
    return {
        (rank.node, path)
        for rank in ranks
        for path in (rank.process.stdout, rank.process.stderr, rank.process.nccl_log)
        if path
    }


def _recent(stacks: Iterable[tuple[str, StackDump]], context: SnapshotContext) -> list[tuple[str, StackDump]]:
    oldest = context.now - max(STACKS_KEPT, (context.stood_still or 0.0) + 1.0) if context.live else float("-inf")
    return [(node, dump) for node, dump in stacks if dump.at >= oldest]


def _node(state: NodeState) -> Node:
    held = state.seen_at if state.link in {"live", "limited"} else None
    gpus_answer = state.answers("gpus")
    gpu_rows = state.gpu_rows.frozen()
    return Node(
        name=state.name,
        link=state.link,
        why=state.why,
        since=state.since,
        seen_at=state.seen_at,
        hello=state.hello,
        sources=state.sources,
        gpus=tuple(_gpu(gpu, gpu_rows, held if gpus_answer else None) for gpu in state.gpus.values()),
        ports=tuple(_port(port) for port in state.ports.values()),
        network=NetworkUse(
            interfaces=tuple(i.facts for i in state.interfaces.values()),
            segments_per_s=state.segments_per_s,
            retransmitted_per_s=state.retransmitted_per_s,
            ports=tuple(state.port_uses.values()),
        ),
        host=state.host,
        load=state.load,
        disks=tuple(state.disks.values()),
        clock_offset=state.clock_offset,
        gpu_fault=state.gpu_fault,
        leaf=state.leaf,
        fabric=tuple(state.fabric.values()),
        fabric_services=tuple(state.fabric_services.values()),
        topology=state.topology,
        logs_read=state.logs_read,
        launchers=tuple(state.launchers.values()),
    )


def _frozen(looks: TimeSeries[T], past: SampleRing[T], at: float | None) -> TimeSeries[T]:
    """The looks, and the last value once more as of ``at``: nodes send only what changed."""
    due = at is not None and at - looks.at > HELD
    return looks.frozen(past, at if due else None)


def _gpu(gpu: GpuState, past: SampleRing[GpuSample], held: float | None) -> Gpu:
    return Gpu(
        index=gpu.index,
        facts=gpu.facts,
        looks=_frozen(gpu.looks, past, held if gpu.fault is None else None),
        processes=gpu.processes,
        fault=gpu.fault,
        nvlinks=tuple(gpu.nvlinks.values()),
        nvlink_grown=dict(gpu.nvlink_grown),
    )


def _port(port: PortState) -> Port:
    return Port(port.facts, port.counters, port.first, port.changes)


def _ranks(node: NodeState) -> tuple[Rank, ...]:
    seen = node.link in {"live", "limited"} and node.answers("ranks")
    past = node.pulses.frozen()
    on: dict[int, tuple[int, ...]] = {}
    for gpu in node.gpus.values():
        for process in gpu.processes:
            on[process.pid] = (*on.get(process.pid, ()), gpu.index)
    return tuple(
        Rank(
            rank=rank.process.rank,
            node=rank.node,
            process=rank.process,
            looks=_frozen(rank.looks, past, node.seen_at if seen and rank.gone_at is None else None),
            helpers=tuple(rank.helpers.values()),
            program_ended_at=rank.program_ended_at,
            gone_at=rank.gone_at,
            gpus=_gpus_of(on, pid, rank) if on else (),
            inside=rank.inside,
            cpu_wait=rank.cpu_wait,
        )
        for pid, rank in node.ranks.items()
    )


def _gpus_of(on: Mapping[int, tuple[int, ...]], pid: int, rank: RankState) -> tuple[int, ...]:
    found = on.get(pid, ())
    for helper in rank.helpers:
        found += on.get(helper, ())
    return _in_order(found)


@lru_cache(maxsize=1024)
def _in_order(found: tuple[int, ...]) -> tuple[int, ...]:
    """Indices of GPUs; those of the first rank of each of thousands of nodes are the same object."""
    return tuple(sorted(set(found)))
