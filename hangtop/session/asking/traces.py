"""Profiler traces of a job: read here, read where they lie on the nodes, or asked of the running ranks."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.samples.traces import RankTrace
from hangtop.diagnosis.job import Job, Rank
from hangtop.session.asking.probing import Connections

if TYPE_CHECKING:
    from collectors.probes.trace.remote.program import ListedTrace, TraceWay

Progress = Callable[[str], None]

HOW_TO_ENABLE = (
    "A job can be asked if dynolog --enable_ipc_monitor runs on every node and it is started with",
    "    KINETO_USE_DAEMON=1",
    "Or let the script write traces, and name the folder here:",
    "    torch.profiler.profile(schedule=torch.profiler.schedule(",
    "        wait=100, warmup=2, active=5), on_trace_ready=",
    "        torch.profiler.tensorboard_trace_handler('/tmp/traces'))",
)

_PID = re.compile(r"(?<!\d)(\d{1,11})(?:\.json(?:\.gz)?)?$")


def read_here(
    patterns: Sequence[str], progress: Progress = lambda _: None, advance: Callable[[int], None] = lambda _: None
) -> list[RankTrace]:
    """The traces that paths, folders and globs of this machine name; one that cannot be read says why."""
    from collectors.formats import kineto
    from collectors.probes.trace.remote.program import find

    found = []
    paths = find(patterns)
    for number, path in enumerate(paths, start=1):
        progress(f"trace {number} of {len(paths)}: {path}")
        found.append(kineto.read(path, advance))
    return found


async def read_there(
    session: Connections, job: Job, patterns: Sequence[str], progress: Progress = lambda _: None
) -> list[RankTrace]:
    """The traces that lie on the nodes of a job, reduced there; a node that cannot be asked says why.

    A file on storage that nodes share is read by one of them.
    """
    # Imported here: the probe brings the payload's machinery, which the first frame does not need.
    from collectors.probes.trace import fetch

    failed: list[RankTrace] = []

    async def find(node: str) -> list[ListedTrace]:
        try:
            return await fetch.find(session.transport(node), session.python(node), patterns)
        except TransportError as error:
            failed.append(_unread(node, " ".join(patterns), str(error)))
            return []

    async def read(node: str, paths: list[str]) -> list[RankTrace]:
        try:
            return await fetch.read(session.transport(node), session.python(node), paths, progress)
        except TransportError as error:
            return [_unread(node, path, str(error)) for path in paths]

    nodes = sorted(job.nodes)
    found = await asyncio.gather(*(find(node) for node in nodes))
    shared_out = share(dict(zip(nodes, found, strict=True)))
    parts = await asyncio.gather(*(read(node, paths) for node, paths in shared_out.items() if paths))
    return _with_ranks(job, [trace for part in (*parts, failed) for trace in part])


def share(found: Mapping[str, Sequence[ListedTrace]]) -> dict[str, list[str]]:
    """Who reads which file: one node each, the largest first to whoever has least to read.

    A file of the same path, size and time on several nodes is one file on shared storage.
    """
    seen: dict[tuple[ListedTrace, str], list[str]] = {}
    for node, files in found.items():
        for file in files:
            seen.setdefault((file, node if file.size < 0 else ""), []).append(node)
    load = dict.fromkeys(found, 0)
    shared_out: dict[str, list[str]] = {node: [] for node in found}
    for (file, _), nodes in sorted(seen.items(), key=lambda one: (-one[0][0].size, one[0])):
        node = min(nodes, key=lambda node: load[node])
        load[node] += max(0, file.size)
        shared_out[node].append(file.path)
    return shared_out


@dataclass(frozen=True, slots=True)
class Asking:
    """How the ranks of a job can be asked for a trace, by node, and what that would run there."""

    ways: dict[str, list[TraceWay]]
    seconds: float
    token: str

    @property
    def possible(self) -> bool:
        """Some rank can be asked."""
        return any(not way.why for ways in self.ways.values() for way in ways)

    def commands(self) -> dict[str, list[str]]:
        """The exact commands, by node."""
        from collectors.probes.trace.fetch import shown_command

        shown = {node: shown_command(ways, self.seconds, self.token) for node, ways in self.ways.items()}
        return {node: [command] for node, command in shown.items() if command}

    def unread(self) -> list[RankTrace]:
        """Instead of traces: why each rank that cannot be asked has none."""
        return [
            _unread(node, f"pid {way.pid}", way.why)._replace(rank=way.rank)
            for node, ways in self.ways.items()
            for way in ways
            if way.why
        ]

    def missing(self) -> list[str]:
        """Why ranks cannot be asked, one line a reason."""
        if not self.ways:
            return ["no living rank is in view"]
        reasons: dict[str, list[str]] = {}
        for node, ways in sorted(self.ways.items()):
            for way in ways:
                if way.why:
                    reasons.setdefault(way.why, []).append(f"{way.rank} on {node}")
        return [
            f"rank {', '.join(who[:6])}{f' and {len(who) - 6} more' if len(who) > 6 else ''}: {why}"
            for why, who in reasons.items()
        ]


async def find_ways(session: Connections, job: Job, seconds: float, ranks: Iterable[int] | None = None) -> Asking:
    """Find out how the living ranks of a job, or these of them, can be asked. Only looks."""
    from collectors.probes.trace import fetch
    from collectors.probes.trace.remote.program import TraceWay

    async def of(node: str, own: list[Rank]) -> list[TraceWay]:
        pairs = [(rank.rank, rank.process.pid) for rank in own]
        try:
            return await fetch.survey(session.transport(node), session.python(node), pairs)
        except TransportError as error:
            return [TraceWay(rank, pid, str(error)) for rank, pid in pairs]

    by_node = _by_node(job, None if ranks is None else set(ranks))
    parts = await asyncio.gather(*(of(node, own) for node, own in by_node.items()))
    return Asking(dict(zip(by_node, parts, strict=True)), seconds, secrets.token_hex(4))


async def capture(session: Connections, asking: Asking) -> list[RankTrace]:
    """Trace the ranks that can be asked, all at once; the others say why not."""
    from collectors.probes.trace import fetch

    async def of(node: str, ways: list[TraceWay]) -> list[RankTrace]:
        pairs = [(way.rank, way.pid) for way in ways]
        try:
            return await fetch.capture(
                session.transport(node), session.python(node), pairs, asking.seconds, asking.token
            )
        except TransportError as error:
            return [_unread(node, f"pid {pid}", str(error))._replace(rank=rank) for rank, pid in pairs]

    parts = await asyncio.gather(*(of(node, ways) for node, ways in asking.ways.items()))
    return [trace for part in parts for trace in part]


def _by_node(job: Job, ranks: set[int] | None) -> dict[str, list[Rank]]:
    by_node: dict[str, list[Rank]] = {}
    for rank in job.ranks:
        if rank.gone_at is None and (ranks is None or rank.rank in ranks):
            by_node.setdefault(rank.node, []).append(rank)
    return by_node


def _unread(node: str, path: str, why: str) -> RankTrace:
    from collectors.probes.trace.remote.reduction import unread

    return unread(path, why)._replace(node=node)


def _with_ranks(job: Job, traces: Iterable[RankTrace]) -> list[RankTrace]:
    """Traces whose name ends in the pid of a rank of that node (Kineto's and dynolog's do) are that rank's."""
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    found = []
    for trace in traces:
        match = _PID.search(trace.path)
        rank = ranks.get((trace.node, int(match.group(1)))) if match else None
        found.append(trace if rank is None or trace.world_size is not None else trace._replace(rank=rank))
    return found
