"""What profiler traces say, as lines with bars and as the command's JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from collectors.samples.traces import RankTrace
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.phrasing import count, size
from hangtop.diagnosis.traces import TracePicture, findings, lasting, outcome, picture
from hangtop.session.probes import Line, ProbeResult, Shade

WIDTH = 118
PARTS: Mapping[str, tuple[str, Shade]] = {
    "compute": ("█", "good"), "exposed communication": ("▒", "bad"), "copies": ("=", "middling"),
    "waits for data": ("d", "accent"), "idle": ("·", "dim"),
}  # fmt: skip
"""Parts of a rank's time. Each has its own glyph: colours alone carry no meaning."""
COLUMNS = (("wall", 9), ("compute", 9), ("comm", 7), ("exposed", 9), ("copy", 6), ("data", 6), ("idle", 6), ("late", 8))
"""Heads of the ranks' table, and their widths."""
NARROW = 100
"""Cells under which the bars need the room of the columns that they show themselves."""
LEAST = ("wall", "exposed", "late")
SHOWN = 12
"""Collectives that are shown; the JSON has all."""


def result(traces: list[RankTrace], width: int) -> tuple[TracePicture, ProbeResult]:
    """Put traces together and judge them; lines ``width`` cells wide."""
    seen = picture(traces)
    found = findings(seen)
    told = ProbeResult(
        "Profiler traces", outcome(seen, found), _summary(seen, found), tuple(_lines(seen, width)), _figures(seen),
        found,
    )  # fmt: skip
    return seen, told


def _summary(seen: TracePicture, found: tuple[Finding, ...]) -> str:
    if not seen.ranks:
        return "no trace could be read" if seen.unread else "there is no trace"
    if found:
        return found[0].summary
    shares = [
        f"{part} {statistics.median(_parts(trace)[part] / (trace.wall or 1.0) for trace in seen.ranks):.0%}"
        for part in ("compute", "exposed communication", "idle")
    ]
    return f"{count(len(seen.ranks), 'rank')}, {count(seen.steps, 'step')}: {', '.join(shares)}"


def _parts(trace: RankTrace) -> dict[str, float]:
    """Seconds of each part; together they are the wall time."""
    waited = min(trace.data, trace.idle)
    copied = max(0.0, trace.wall - trace.compute - trace.exposed - trace.idle)
    return dict(zip(PARTS, (trace.compute, trace.exposed, copied, waited, trace.idle - waited), strict=True))


def _bar(trace: RankTrace, width: int) -> Line:
    """A rank's parts as cells of a bar, each rounded so that the sum is the width."""
    if not trace.wall:
        return [("?" * width, "dim")]
    drawn: Line = []
    total, done = 0.0, 0
    for part, seconds in _parts(trace).items():
        total += seconds
        until = min(width, round(total / trace.wall * width))
        glyph, shade = PARTS[part]
        drawn.append((glyph * (until - done), shade))
        done = max(done, until)
    return [piece for piece in drawn if piece[0]]


def _lines(seen: TracePicture, width: int) -> Iterator[Line]:
    if seen.ranks:
        yield from _ranks(seen, width)
        yield []
        yield from _collectives(seen)
        yield from _steps(seen)
    for trace in seen.unread:
        place = f"{trace.node}:{trace.path}" if trace.node else trace.path
        yield [("not read  ", "strong"), (f"{place}: {trace.why}", "")]
    for trace in seen.ranks:
        damaged = f"{count(trace.damaged, 'event')} could not be decoded" if trace.damaged else ""
        notes = "; ".join(filter(None, (trace.why, damaged)))
        if notes:
            yield [(f"{_name(trace)}: {notes}", "dim")]


def _ranks(seen: TracePicture, width: int) -> Iterator[Line]:
    named = max(4, *(len(_name(trace)) for trace in seen.ranks))
    columns = [(name, room) for name, room in COLUMNS if width >= NARROW or name in LEAST]
    head = "rank".ljust(named) + "".join(name.rjust(room) for name, room in columns)
    yield [(head, "dim")]
    for trace in seen.ranks:
        cells = _cells(seen, trace)
        text = _name(trace).ljust(named) + "".join(cells[name].rjust(room) for name, room in columns)
        yield [(text + "  ", ""), *_bar(trace, max(10, width - len(head) - 2))]
    legend: Line = [("bars: ", "dim")]
    for part, (glyph, shade) in PARTS.items():
        legend += [(glyph, shade), (f" {part}  ", "dim")]
    yield legend


def _cells(seen: TracePicture, trace: RankTrace) -> dict[str, str]:
    """A rank's columns."""
    late = seen.late(trace.rank)
    shares = {
        "compute": trace.compute, "comm": trace.communication, "exposed": trace.exposed, "copy": trace.memcpy,
        "data": trace.data, "idle": trace.idle,
    }  # fmt: skip
    return {
        "wall": lasting(trace.wall),
        "late": f"{late.late}/{late.met}" if late and late.met else "–",
        **{name: f"{seconds / trace.wall:.0%}" if trace.wall else "–" for name, seconds in shares.items()},
    }


def _collectives(seen: TracePicture) -> Iterator[Line]:
    if not seen.together:
        yield [("no collective in these traces", "dim")]
        return
    heads = f"{'calls':>7}{'median of ranks':>17}{'longest':>11}{'on rank':>9}{'bytes':>11}"
    yield [(f"{'collective':<16}{heads}  group", "dim")]
    for one in seen.together[:SHOWN]:
        worst = "–" if one.worst_rank is None else str(one.worst_rank)
        volume = "–" if one.size is None else size(one.size)
        text = f"{one.op:<16}{one.calls:>7}{lasting(one.seconds):>17}{lasting(one.worst):>11}{worst:>9}{volume:>11}"
        yield [(text, ""), (f"  {one.group or '–'}", "dim")]
    if len(seen.together) > SHOWN:
        yield [(f"… and {len(seen.together) - SHOWN} more", "dim")]


def _steps(seen: TracePicture) -> Iterator[Line]:
    steps = [(step.seconds, step.number, trace) for trace in seen.ranks for step in trace.steps]
    if steps:
        usual = statistics.median(seconds for seconds, _, _ in steps)
        longest, number, trace = max(steps, key=lambda one: one[0])
        which = f"longest {lasting(longest)} (step {number}, {_name(trace, 'rank ')})"
        yield [(f"{count(seen.steps, 'step')}: median {lasting(usual)}, {which}", "")]
    if seen.met:
        yield [(f"{count(seen.met, 'collective')} compared among ranks: late is how often a rank came last", "dim")]


def _name(trace: RankTrace, before: str = "") -> str:
    return trace.path.rsplit("/", 1)[-1][:24] if trace.rank is None else f"{before}{trace.rank}"


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
                "longest_s": one.worst, "longest_rank": one.worst_rank, "bytes": one.size,
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
        "rank": trace.rank, "node": trace.node, "path": trace.path, "device": trace.device, "wall_s": trace.wall,
        "compute_s": trace.compute, "communication_s": trace.communication,
        "exposed_communication_s": trace.exposed, "memcpy_s": trace.memcpy, "data_s": trace.data,
        "idle_s": trace.idle, "late": late.late if late else None, "late_of": late.met if late else None,
        "held_up_s": round(late.held_up, 9) if late else None, "waited_s": round(late.waited, 9) if late else None,
        "events": trace.events, "damaged": trace.damaged, "why": trace.why,
        "steps": [
            {"step": step.number, "start_s": step.start, "wall_s": step.seconds} for step in trace.steps
        ],
    }  # fmt: skip
