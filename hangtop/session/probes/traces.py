"""Profiler traces of a job, as lines and as JSON."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

from collectors.formats import kineto
from collectors.samples.traces import RankTrace
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.traces import TracePicture, findings, lasting, picture
from hangtop.session.probes import Probe, ProbeResult, Say, table

RANKS = ("rank", "wall", "compute", "communication", "exposed", "copies", "data", "idle", "late")
COLLECTIVES = ("collective", "calls", "median of ranks", "group")
SHOWN = 12
"""Collectives that are shown; the JSON has all."""


def traces(patterns: Sequence[str]) -> Probe:
    """Read the traces that paths, folders and globs of this machine name."""

    async def run(say: Say) -> ProbeResult:
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def advance() -> None:
            if stopped.is_set():
                raise asyncio.CancelledError

        def read() -> list[RankTrace]:
            found, paths = [], kineto.find(patterns)
            for number, path in enumerate(paths, start=1):
                loop.call_soon_threadsafe(say, f"trace {number} of {len(paths)}: {path}")
                found.append(kineto.read(path, advance))
            return found

        try:
            return result(picture(await asyncio.to_thread(read)))
        finally:
            stopped.set()  # or a thread would read on when nobody waits for it any more

    return Probe(f"Profiler traces: {' '.join(patterns)}", "", "", run)


def result(seen: TracePicture) -> ProbeResult:
    """What the traces say together, judged."""
    found = findings(seen)
    read = f"{count(len(seen.ranks), 'trace')} read, nothing stands out" if seen.ranks else "no trace could be read"
    document = {
        "backend": "trace",
        "world_size": max((trace.world_size or 0 for trace in seen.ranks), default=0) or None,
        "compared": seen.met,
        "ranks": [_figures(seen, trace) for trace in seen.ranks],
        "collectives": [one._asdict() for one in seen.together],
        "unread": [{"node": one.node, "path": one.path, "why": one.why} for one in seen.unread],
    }
    outcome = "failed" if not seen.ranks else "slow" if found else "ok"
    summary = found[0].summary if found else read
    return ProbeResult("Profiler traces", outcome, summary, tuple(_lines(seen)), document, found)


def _figures(seen: TracePicture, trace: RankTrace) -> dict[str, object]:
    """What a trace told, without its single calls, and how often its rank came late, of how many collectives."""
    late = seen.lateness.get(trace.rank)
    told = {name: value for name, value in trace._asdict().items() if name != "calls"}
    return told | {"late": late and late.late, "late_of": late and late.met, "held_up": late and late.held_up}


def _lines(seen: TracePicture) -> Iterator[str]:
    yield from table(RANKS, [_rank(seen, trace) for trace in seen.ranks])
    yield ""
    yield from table(COLLECTIVES, [
        (one.op, str(one.calls), lasting(one.seconds), one.group or "–") for one in seen.together[:SHOWN]
    ])  # fmt: skip
    for trace in (*seen.unread, *(trace for trace in seen.ranks if trace.why)):
        place = f"{trace.node}:{trace.path}" if trace.node else trace.path
        yield f"{'' if trace.events else 'not read  '}{place}: {trace.why}"


def _rank(seen: TracePicture, trace: RankTrace) -> list[str]:
    name = trace.path.rsplit("/", 1)[-1][:24] if trace.rank is None else str(trace.rank)
    late = seen.lateness.get(trace.rank)
    parts = (trace.compute, trace.communication, trace.exposed, trace.memcpy, trace.data, trace.idle)
    shares = [f"{seconds / trace.wall:.0%}" if trace.wall else "–" for seconds in parts]
    return [name, lasting(trace.wall), *shares, f"{late.late}/{late.met}" if late and late.met else "–"]
