"""Profiler traces of a job: read here, read where they lie on the nodes, or made of the running ranks by dynolog."""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from collectors.fleet.transport import TransportError
from collectors.formats import kineto
from collectors.probes.trace import fetch
from collectors.probes.trace.remote.program import ListedTrace, TraceWay, find
from collectors.probes.trace.remote.reduction import unread
from collectors.samples.traces import RankTrace
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.traces.picture import TracePicture
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, ProbeSession, Say
from hangtop.session.probes.trace_figures import WIDTH, result

HOW_TO_ENABLE = (
    "A job can be traced if dynolog --enable_ipc_monitor runs on every node and it is started with",
    "    KINETO_USE_DAEMON=1",
    "Or let the script write traces, and name the folder here:",
    "    torch.profiler.profile(schedule=torch.profiler.schedule(",
    "        wait=100, warmup=2, active=5), on_trace_ready=",
    "        torch.profiler.tensorboard_trace_handler('/tmp/traces'))",
)

_PID = re.compile(r"(?<!\d)(\d{1,11})(?:\.json(?:\.gz)?)?$")


class TracingSession(ProbeSession, Protocol):
    """What tracing needs of a session."""

    traces: TracePicture | None
    """What was found last, for the verdict."""


# --- files here --------------------------------------------------------------------------------------------------


def traces_here(patterns: Sequence[str], session: TracingSession | None = None, width: int = WIDTH) -> Probe:
    """Read the traces that paths, folders and globs of this machine name."""

    async def run(say: Say) -> ProbeResult:
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def progress(line: str) -> None:
            loop.call_soon_threadsafe(say, line)

        try:
            found = await asyncio.to_thread(_read_here, patterns, progress, stopped)
        finally:
            stopped.set()  # or a thread would read on when nobody waits for it any more
        return _kept(found, session, width)

    return Probe(f"Profiler traces: {' '.join(patterns)}", "", "", run)


def _read_here(patterns: Sequence[str], progress: Say, stopped: threading.Event) -> list[RankTrace]:
    def advance(_size: int) -> None:
        if stopped.is_set():
            raise asyncio.CancelledError

    found, paths = [], find(patterns)
    for number, path in enumerate(paths, start=1):
        progress(f"trace {number} of {len(paths)}: {path}")
        found.append(kineto.read(path, advance))
    return found


# --- files on the nodes ------------------------------------------------------------------------------------------


def traces_there(session: TracingSession, patterns: Sequence[str], width: int = WIDTH) -> Probe:
    """Read the traces that lie on the nodes; each is reduced there, one on shared storage by one node."""

    async def run(say: Say) -> ProbeResult:
        return _kept(await _read_there(session, session.job(), patterns, say), session, width)

    return Probe(f"Profiler traces: {' '.join(patterns)}", "", "", run)


async def _read_there(session: ProbeSession, job: Job, patterns: Sequence[str], say: Say) -> list[RankTrace]:
    failed: list[RankTrace] = []

    async def find_on(node: str) -> list[ListedTrace]:
        try:
            return await fetch.find(session.transport(node), session.python(node), patterns)
        except TransportError as error:
            failed.append(unread(" ".join(patterns), str(error))._replace(node=node))
            return []

    async def read_on(node: str, paths: list[str]) -> list[RankTrace]:
        try:
            return await fetch.read(session.transport(node), session.python(node), paths, say)
        except TransportError as error:
            return [unread(path, str(error))._replace(node=node) for path in paths]

    nodes = sorted(job.nodes)
    found = await asyncio.gather(*(find_on(node) for node in nodes))
    shared_out = share(dict(zip(nodes, found, strict=True)))
    parts = await asyncio.gather(*(read_on(node, paths) for node, paths in shared_out.items() if paths))
    return [_with_rank(job, trace) for part in (*parts, failed) for trace in part]


def share(found: Mapping[str, Sequence[ListedTrace]]) -> dict[str, list[str]]:
    """Which node reads which file: one node each, the largest first to the node that has least to read.

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


def _with_rank(job: Job, trace: RankTrace) -> RankTrace:
    """A trace whose name ends in the pid of a rank of that node (Kineto's and dynolog's do) is that rank's."""
    match = _PID.search(trace.path)
    if match is None or trace.world_size is not None:
        return trace
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    return trace._replace(rank=ranks.get((trace.node, int(match.group(1))), trace.rank))


# --- running ranks -----------------------------------------------------------------------------------------------


async def trace_ranks(session: TracingSession, seconds: float, width: int = WIDTH) -> Probe:
    """Find out which ranks dynolog can trace; the probe then traces them all at once.

    Raises :class:`ProbeRefused` where none can be, with why and what would let them.
    """
    by_node: dict[str, list[Rank]] = {}
    for rank in session.job().ranks:
        if rank.gone_at is None:
            by_node.setdefault(rank.node, []).append(rank)
    parts = await asyncio.gather(*(_ways(session, node, own) for node, own in by_node.items()))
    ways = dict(zip(by_node, parts, strict=True))
    able = [way for some in ways.values() for way in some if not way.why]
    missing = _missing(ways)
    if not able:
        raise ProbeRefused("\n".join([*(missing or ["no living rank is in view"]), "", *HOW_TO_ENABLE]))
    token = secrets.token_hex(4)
    commands = {node: fetch.shown_command(some, seconds, token) for node, some in ways.items()}
    nodes = tuple(node for node, command in commands.items() if command)

    async def of_node(node: str, some: list[TraceWay]) -> list[RankTrace]:
        pairs = [(way.rank, way.pid) for way in some]
        try:
            return await fetch.capture(session.transport(node), session.python(node), pairs, seconds, token)
        except TransportError as error:
            return [unread(f"pid {pid}", str(error))._replace(node=node, rank=rank) for rank, pid in pairs]

    async def run(say: Say) -> ProbeResult:
        say(f"tracing for {seconds:g} s, then the ranks write")
        found = await asyncio.gather(*(of_node(node, some) for node, some in ways.items()))
        return _kept([trace for part in found for trace in part], session, width)

    brief = (
        f"{count(len(able), 'rank')} on {count(len(nodes), 'node')}, the profiler runs for {seconds:g} s and slows "
        "them meanwhile"
    )
    command = "\n".join(f"on {node}: {commands[node]}" for node in nodes)
    risk = "\n".join([f"The profiler slows these ranks down for {seconds:g} s.", *missing[:2]])
    return Probe("Trace the ranks", brief, command, run, risk, nodes)


async def _ways(session: ProbeSession, node: str, ranks: Iterable[Rank]) -> list[TraceWay]:
    pairs = [(rank.rank, rank.process.pid) for rank in ranks]
    try:
        return await fetch.survey(session.transport(node), session.python(node), pairs)
    except TransportError as error:
        return [TraceWay(rank, pid, str(error)) for rank, pid in pairs]


def _missing(ways: Mapping[str, Sequence[TraceWay]]) -> list[str]:
    """Why ranks cannot be traced, one line a reason."""
    reasons: dict[str, list[str]] = {}
    for node, some in sorted(ways.items()):
        for way in some:
            if way.why:
                reasons.setdefault(way.why, []).append(f"{way.rank} on {node}")
    return [
        f"rank {', '.join(held[:6])}{f' and {len(held) - 6} more' if len(held) > 6 else ''}: {why}"
        for why, held in reasons.items()
    ]


def _kept(found: list[RankTrace], session: TracingSession | None, width: int) -> ProbeResult:
    """The result, whose figures the session's verdict has from now on."""
    seen, told = result(found, width)
    if session is not None and seen.ranks:
        session.traces = seen
    return told
