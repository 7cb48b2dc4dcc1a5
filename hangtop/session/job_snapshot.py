"""The frozen :class:`~hangtop.diagnosis.job.Job` of a moving :class:`~hangtop.session.state.job_state.JobState`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from collectors.samples.gpus import GpuSample
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Gpu, Job, NetworkUse, Node, Port, Rank
from hangtop.diagnosis.roster import told_size
from hangtop.session.job_selection import select_job
from hangtop.session.state.job_state import GpuState, JobState, NodeState, RankState
from hangtop.session.state.time_series import SampleRing, TimeSeries

T = TypeVar("T", bound=NamedTuple)

HELD = 0.5
"""Seconds after which an unchanged value is worth a second look of the same."""
STACKS_KEPT = 90.0
"""Seconds for which a dump is at hand while the job moves: nine looks of those that are taken every ten seconds. While
it stands still, all since then are."""

SAME = (
    "name", "link", "why", "since", "seen_at", "hello", "sources", "host", "load", "clock_offset", "gpu_fault",
    "topology", "logs_read",
)  # fmt: skip
"""Fields of a node's state that its picture has as they are, …"""
TABLES = ("disks", "fabric", "fabric_services", "launchers")
"""… and tables of which it has the values."""
_TIMEOUT = re.compile(
    r"--?(?:ddp|nccl|dist(?:ributed)?|pg|process[-_]group|collective)[-_]?timeout([-_]min\w*)?[-_\w]*[ =](\d{1,6})\b",
    re.IGNORECASE,
)
"""Options by which scripts set the time-out of collectives."""
NodeSnapshot: TypeAlias = tuple[Node, tuple[Rank, ...]]
"""One node and its ranks, ended ones too."""


class JobSnapshot(NamedTuple):
    """Everything of one moment, copied: the :class:`Job` may be made of it in another thread."""

    about: Job
    """What the session knows of the job as a whole."""
    nodes: Mapping[str, NodeSnapshot]
    stacks: Sequence[tuple[str, StackDump]]
    events: Sequence[tuple[str, LogEvent]]

    def job(self) -> Job:
        """Make the job: choose its ranks, and leave out what ranks of other runs log."""
        ranks, others, bystanders, ended = select_job(rank for _, ranks in self.nodes.values() for rank in ranks)
        events = _of_the_job(self.events, ranks, (*others, *ended))
        dumped = {(node, dump.rank_pid) for node, dump in self.stacks}
        return replace(
            self.about,
            nodes={name: node for name, (node, _) in self.nodes.items()},
            ranks=ranks,
            world_size=told_size(rank.process.world_size for rank in ranks),
            stacks=tuple(dump for _, dump in self.stacks),
            stack_nodes=tuple(node for node, _ in self.stacks),
            stack_ranks={key: rank.rank for rank in ranks if (key := (rank.node, rank.process.pid)) in dumped},
            events=tuple(event for _, event in events),
            event_nodes=tuple(node for node, _ in events),
            collective_timeout=own_timeout(
                (rank.process.command for rank in ranks),
                (e.data.get("timeout_ms") for _, e in events if e.kind == "torch.watchdog_timeout"),
            ),
            others=others,
            bystanders=bystanders,
        )


def job_snapshot(state: JobState, about: Job) -> JobSnapshot:
    """Copy everything of one moment; ``about`` is the moment, and what the session knows of it beside the state."""
    oldest = about.now - max(STACKS_KEPT, (about.stood_still or 0.0) + 1.0) if about.live else float("-inf")
    return JobSnapshot(
        replace(
            about,
            progress=tuple(state.progress.values()),
            recorders=tuple(state.recorders.values()),
            ras=tuple(state.ras),
        ),
        {name: node_snapshot(node) for name, node in state.nodes.items()},
        [(node, dump) for node, dump in state.stacks if dump.at >= oldest],
        tuple(state.events),
    )


def own_timeout(commands: Iterable[str], seen_ms: Iterable[object] = ()) -> float | None:
    """Seconds after which a job gives up a collective: what its watchdogs said, in ms, or options of its script.

    None where neither tells. The shortest counts.
    """
    said = [ms / 1000.0 for ms in seen_ms if isinstance(ms, int | float)]
    said += [float(n) * (60.0 if minutes else 1.0) for text in set(commands) for minutes, n in _TIMEOUT.findall(text)]
    return min((seconds for seconds in said if seconds > 0), default=None)


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


def node_snapshot(state: NodeState) -> NodeSnapshot:
    """One node of this moment, copied."""
    heard = state.seen_at if state.link in {"live", "limited"} else None
    gpus_heard = heard if state.answers("gpus") else None
    gpu_rows, pulses = state.gpu_rows.frozen(), state.pulses.frozen()
    taken: dict[str, Any] = {name: getattr(state, name) for name in SAME}
    taken |= {name: tuple(getattr(state, name).values()) for name in TABLES}
    node = Node(
        **taken,
        gpus=tuple(_gpu(gpu, _frozen(gpu.looks, gpu_rows, gpus_heard)) for gpu in state.gpus.values()),
        ports=tuple(Port(port.facts, port.counters, port.first, port.changes) for port in state.ports.values()),
        network=NetworkUse(
            tuple(interface.facts for interface in state.interfaces.values()),
            state.segments_per_s,
            state.retransmitted_per_s,
            tuple(state.port_uses.values()),
        ),
    )
    ranks_heard = heard if state.answers("ranks") else None
    on = _gpus_by_pid(state)
    return node, tuple(
        _rank(rank, _frozen(rank.looks, pulses, ranks_heard if rank.gone_at is None else None), on)
        for rank in state.ranks.values()
    )


def _frozen(looks: TimeSeries[T], past: SampleRing[T], heard: float | None) -> TimeSeries[T]:
    """The looks, and the last value once more as of when its node was heard: nodes send only what changed."""
    return looks.frozen(past, heard if heard is not None and heard - looks.at > HELD else None)


def _gpu(gpu: GpuState, looks: TimeSeries[GpuSample]) -> Gpu:
    links, grown = tuple(gpu.nvlinks.values()), dict(gpu.nvlink_grown)
    return Gpu(gpu.index, gpu.facts, looks, gpu.processes, gpu.fault, links, grown)


def _rank(rank: RankState, looks: TimeSeries[RankPulse], on: Mapping[int, tuple[int, ...]]) -> Rank:
    pids = (rank.process.pid, *rank.helpers) if on else ()
    return Rank(
        rank=rank.process.rank,
        node=rank.node,
        process=rank.process,
        looks=looks,
        helpers=tuple(rank.helpers.values()),
        gone_at=rank.gone_at,
        gpus=_in_order(tuple(index for pid in pids for index in on.get(pid, ()))),
        inside=rank.inside,
        cpu_wait=rank.cpu_wait,
    )


def _gpus_by_pid(node: NodeState) -> Mapping[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for gpu in node.gpus.values():
        for process in gpu.processes:
            found[process.pid] = (*found.get(process.pid, ()), gpu.index)
    return found


@lru_cache(maxsize=1024)
def _in_order(found: tuple[int, ...]) -> tuple[int, ...]:
    """Indices of GPUs; those of the first rank of each of thousands of nodes are the same object."""
    return tuple(sorted(set(found)))
