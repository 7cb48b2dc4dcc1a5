"""Profiler traces of a job: read here, or where they lie on the nodes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from collectors.fleet.transport import TransportError
from collectors.formats import kineto
from collectors.probes.trace import fetch
from collectors.probes.trace.remote.program import ListedTrace, find
from collectors.probes.trace.remote.reduction import unread
from collectors.samples.traces import RankTrace
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.traces.picture import TracePicture
from hangtop.session.probes import Probe, ProbeResult, ProbeSession, Say
from hangtop.session.probes.trace_figures import WIDTH, result

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


def traces_on_nodes(session: TracingSession, patterns: Sequence[str], width: int = WIDTH) -> Probe:
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
    """A trace whose name ends in the pid of a rank of that node (Kineto's do) is that rank's."""
    match = _PID.search(trace.path)
    if match is None or trace.world_size is not None:
        return trace
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    return trace._replace(rank=ranks.get((trace.node, int(match.group(1))), trace.rank))


def _kept(found: list[RankTrace], session: TracingSession | None, width: int) -> ProbeResult:
    """The result, whose figures the session's verdict has from now on."""
    seen, told = result(found, width)
    if session is not None and seen.ranks:
        session.traces = seen
    return told
