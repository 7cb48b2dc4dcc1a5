"""Profiler traces of a job, as lines with bars and as JSON."""

from __future__ import annotations

import asyncio
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collectors.formats import kineto
from collectors.samples.traces import RankTrace
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.traces import TracePicture, findings, lasting, outcome, picture
from hangtop.session.probes import Line, Probe, ProbeResult, Say, Shade

BAR = 51
"""Cells of a rank's bar."""
PARTS: Mapping[str, tuple[str, Shade]] = {
    "compute": ("█", "good"), "exposed communication": ("▒", "bad"), "copies": ("=", "middling"),
    "waits for data": ("d", "accent"), "idle": ("·", "dim"),
}  # fmt: skip
"""Parts of a rank's time. Each has its own glyph: colours alone carry no meaning."""
COLUMNS = (("wall", 9), ("compute", 9), ("comm", 7), ("exposed", 9), ("copy", 6), ("data", 6), ("idle", 6), ("late", 8))
"""Heads of the ranks' table, and their widths."""
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
    shares = ", ".join(
        f"{part} {statistics.median(_parts(trace)[part] / (trace.wall or 1.0) for trace in seen.ranks):.0%}"
        for part in ("compute", "exposed communication", "idle") if seen.ranks
    )  # fmt: skip
    summary = found[0].summary if found else f"{count(len(seen.ranks), 'rank')}: {shares}"
    if not seen.ranks:
        summary = "no trace could be read" if seen.unread else "there is no trace"
    return ProbeResult("Profiler traces", outcome(seen, found), summary, tuple(_lines(seen)), _figures(seen), found)


def _parts(trace: RankTrace) -> dict[str, float]:
    """Seconds of each part; together they are the wall time."""
    waited = min(trace.data, trace.idle)
    copied = max(0.0, trace.wall - trace.compute - trace.exposed - trace.idle)
    return dict(zip(PARTS, (trace.compute, trace.exposed, copied, waited, trace.idle - waited), strict=True))


def _bar(trace: RankTrace) -> Line:
    """A rank's parts as cells of a bar, each rounded so that the sum is the width."""
    drawn: Line = []
    total, done = 0.0, 0
    for part, seconds in _parts(trace).items():
        total += seconds
        until = min(BAR, round(total / (trace.wall or 1.0) * BAR))
        glyph, shade = PARTS[part]
        drawn.append((glyph * (until - done), shade))
        done = max(done, until)
    return drawn


def _lines(seen: TracePicture) -> Iterator[Line]:
    if seen.ranks:
        yield from _ranks(seen)
        yield []
        yield from _collectives(seen)
    for trace in seen.unread:
        place = f"{trace.node}:{trace.path}" if trace.node else trace.path
        yield [("not read  ", "strong"), (f"{place}: {trace.why}", "")]
    for trace in seen.ranks:
        if trace.why:
            yield [(f"{_name(trace)}: {trace.why}", "dim")]


def _ranks(seen: TracePicture) -> Iterator[Line]:
    named = max(4, *(len(_name(trace)) for trace in seen.ranks))
    yield [("rank".ljust(named) + "".join(name.rjust(room) for name, room in COLUMNS), "dim")]
    for trace in seen.ranks:
        late = seen.late(trace.rank)
        parts = (trace.compute, trace.communication, trace.exposed, trace.memcpy, trace.data, trace.idle)
        shares = [f"{seconds / trace.wall:.0%}" if trace.wall else "–" for seconds in parts]
        cells = [lasting(trace.wall), *shares, f"{late.late}/{late.met}" if late and late.met else "–"]
        text = "".join(cell.rjust(room) for cell, (_, room) in zip(cells, COLUMNS, strict=True))
        yield [(f"{_name(trace).ljust(named)}{text}  ", ""), *_bar(trace)]
    yield [("bars: " + "  ".join(f"{glyph} {part}" for part, (glyph, _) in PARTS.items()), "dim")]


def _collectives(seen: TracePicture) -> Iterator[Line]:
    heads = f"{'calls':>7}{'median of ranks':>17}{'longest':>11}{'on rank':>9}"
    yield [(f"{'collective':<16}{heads}  group" if seen.together else "no collective in these traces", "dim")]
    for one in seen.together[:SHOWN]:
        worst = "–" if one.worst_rank is None else str(one.worst_rank)
        text = f"{one.op:<16}{one.calls:>7}{lasting(one.seconds):>17}{lasting(one.worst):>11}{worst:>9}"
        yield [(text, ""), (f"  {one.group or '–'}", "dim")]


def _name(trace: RankTrace) -> str:
    return trace.path.rsplit("/", 1)[-1][:24] if trace.rank is None else str(trace.rank)


def _figures(seen: TracePicture) -> dict[str, Any]:
    """Members of the command's JSON (``docs/findings.md``)."""
    return {
        "backend": "trace",
        "world_size": max((trace.world_size or 0 for trace in seen.ranks), default=0) or None,
        "compared": seen.met,
        "ranks": [_rank(seen, trace) for trace in seen.ranks],
        "collectives": [
            {
                "op": one.op, "group": one.group, "ranks": one.ranks, "calls": one.calls, "median_s": one.seconds,
                "longest_s": one.worst, "longest_rank": one.worst_rank,
            }
            for one in seen.together
        ],
        "unread": [
            {"rank": trace.rank, "node": trace.node, "path": trace.path, "why": trace.why} for trace in seen.unread
        ],
    }  # fmt: skip


def _rank(seen: TracePicture, trace: RankTrace) -> dict[str, Any]:
    late = seen.late(trace.rank)
    return {
        "rank": trace.rank, "node": trace.node, "path": trace.path, "device": trace.device, "steps": trace.steps,
        "wall_s": trace.wall, "compute_s": trace.compute, "communication_s": trace.communication,
        "exposed_communication_s": trace.exposed, "memcpy_s": trace.memcpy, "data_s": trace.data,
        "idle_s": trace.idle, "late": late.late if late else None, "late_of": late.met if late else None,
        "held_up_s": round(late.held_up, 9) if late else None, "events": trace.events, "why": trace.why,
    }  # fmt: skip
