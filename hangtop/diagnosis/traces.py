"""What the profiler traces of all ranks prove together: a rank that comes late to collectives.

A collective of one rank is matched with another rank's call by its sequence number in the group if the traces have it,
else by its position among the group's calls, if the operations agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, median

from collectors.samples.collectives import RankTrace, TraceCall
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, ranks_text

LATE_S, LATE_SHARE, LATE_USUAL = 50e-6, 0.1, 0.5
"""Ours: least loss in a collective with a late rank: in seconds (more than ranks of a healthy step drift apart), as a
share of the others' time in it, and as a share of the mean loss: many small collectives cost little."""
NEAR = 0.25
"""Ours: a rank counts as late together with the last one within this share of the loss."""
AGREE = 0.9
"""Ours: share of the calls that must have the same operation before two lists are matched by position."""
MEETINGS, OFTEN_LATE = 5, 0.6
"""Ours: least number of collectives with a late rank, and least share of them to which a straggler comes last."""
CHANCE = 0.05
"""Ours: greatest chance, over all ranks, that a healthy rank is late as often; traces also show what it costs."""
HELD_SHARE = 0.05
"""Ours: least share of the wall time for which the others wait for a straggler."""
ONE_SIDED = frozenset(("send", "recv", "send_recv", "broadcast", "reduce", "gather", "scatter"))
"""Operations in which ranks do not all wait for one another: a broadcast's root may come first and finish first."""
WHY_LATE = {
    "compute": (": it computes longer", "Compare clocks and temperature of its GPU with its peers', and its work."),
    "data": (": it waits for its data loader", "Look at the storage that it reads from, and its worker processes."),
    "idle": (": it is idle for longer", "Look at its stacks (hangtop stacks), its CPU and other processes there."),
}
"""What a late rank may spend more time on than the others: the text and the advice."""


@dataclass(slots=True)
class Lateness:
    """How late one rank came to the collectives that it shares with others."""

    rank: int
    met: int = 0
    """Collectives in which some rank was clearly late."""
    late: int = 0
    """Those in which this rank came last, or together with the last one."""
    held_up: float = 0.0
    """Seconds that the median of the others waited for it."""


@dataclass(frozen=True, slots=True)
class TracePicture:
    """All traces compared. ``ranks`` has one trace per rank, sorted by rank."""

    ranks: tuple[RankTrace, ...]
    lateness: Mapping[int | None, Lateness]
    """By rank, for the ranks whose collectives could be matched."""

    @property
    def wall(self) -> float:
        """Median length of a trace, seconds."""
        return median(trace.wall for trace in self.ranks) or 1e-9


def picture(traces: Sequence[RankTrace]) -> TracePicture:
    """Compare the traces; of several traces of one rank the longest counts."""
    longest_last = sorted(traces, key=lambda trace: trace.wall)
    best = {trace.path if trace.rank is None else trace.rank: trace for trace in longest_last}
    ranks = sorted(best.values(), key=lambda trace: (trace.rank is None, trace.rank or 0, trace.path))
    return TracePicture(tuple(ranks), _lateness(list(_meetings(ranks))))


def _meetings(traces: Sequence[RankTrace]) -> Iterator[Mapping[int, float]]:
    """Seconds by rank, for each collective that every traced rank of its group has."""
    groups: dict[str, dict[int, list[TraceCall]]] = defaultdict(lambda: defaultdict(list))
    for trace in traces:
        for call in trace.calls:
            if trace.rank is not None and call.op not in ONE_SIDED:
                groups[call.group][trace.rank].append(call)
    for members in groups.values():
        first = max(members, key=lambda rank: len(members[rank]))
        pairs = {rank: _paired(members[first], calls) for rank, calls in members.items() if rank != first}
        met = {rank: paired for rank, paired in pairs.items() if paired}
        for place, call in enumerate(members[first]):
            if met and all(place in paired for paired in met.values()):
                yield {first: call.seconds} | {rank: paired[place].seconds for rank, paired in met.items()}


def _paired(calls: Sequence[TraceCall], others: Sequence[TraceCall]) -> dict[int, TraceCall]:
    """The other rank's call that matches each of these, by position; empty if they cannot be matched."""
    if all(call.seq is not None for call in (*calls, *others)):
        by_number = {(call.op, call.seq): call for call in others}
        matching = {place: by_number.get((call.op, call.seq)) for place, call in enumerate(calls)}
        return {place: other for place, other in matching.items() if other is not None}
    same = {place: other for place, (call, other) in enumerate(zip(calls, others, strict=False)) if call.op == other.op}
    return same if len(same) >= AGREE * min(len(calls), len(others)) else {}


def _lateness(found: Sequence[Mapping[int, float]]) -> dict[int | None, Lateness]:
    """Late arrivals: a collective's kernel runs from arrival to the common end, so the last rank has the shortest."""
    by_rank: dict[int | None, Lateness] = {}
    usuals = [median(sorted(seconds.values())[1:]) for seconds in found]
    lost = [usual - min(seconds.values()) for seconds, usual in zip(found, usuals, strict=True)]
    mean = fmean(lost) if lost else 0.0
    for seconds, usual, loss in zip(found, usuals, lost, strict=True):
        least = min(seconds.values())
        some_late = loss >= max(LATE_S, LATE_SHARE * usual, LATE_USUAL * mean)
        for rank, took in seconds.items():
            record = by_rank.setdefault(rank, Lateness(rank))
            record.met += some_late
            if some_late and took <= least + NEAR * loss:
                record.late += 1
                record.held_up += usual - took
    return by_rank


# --- findings ----------------------------------------------------------------------------------------------------


def straggler_rank(job: Job) -> Iterator[Finding]:
    """straggler_rank by profiler traces: a rank comes last to most collectives with a late rank, and that costs time.

    Needs five collectives with a clearly late rank, and this rank late more often than chance would make any rank.
    """
    seen = job.traces
    late = {rank: r for rank, r in seen.lateness.items() if _is_late(r, seen)} if seen is not None else {}
    if seen is None or not late or len(late) > max(1, len(seen.lateness) // 4):
        return
    theirs = [trace for trace in seen.ranks if trace.rank in late]
    others = [trace for trace in seen.ranks if trace.rank not in late]
    held = median(record.held_up for record in late.values()) / seen.wall
    more = {word: median(_part(t, word) for t in theirs) - median(_part(t, word) for t in others) for word in WHY_LATE}
    word = max(more, key=lambda word: more[word])
    why, advice = WHY_LATE[word] if more[word] >= HELD_SHARE * seen.wall else ("", WHY_LATE["compute"][1])
    where = ranks_text([record.rank for record in late.values()])
    proof = [
        Evidence(Observer.TRACE, trace.path, trace.began,
                 f"rank {record.rank} came last to {record.late} of {count(record.met, 'collective')} in which a rank "
                 f"was late; the others waited {lasting(record.held_up)} for it")
        for trace in theirs[:8] for record in [late[trace.rank]]
    ]  # fmt: skip
    whole = len(seen.ranks) >= max(trace.world_size or 0 for trace in seen.ranks)
    yield Finding(
        "straggler_rank", "warning", 0.85 if whole else 0.65,
        f"the others wait for {where} for {held:.0%} of the time{why}",
        ranks=tuple(sorted(record.rank for record in late.values())), evidence=tuple(proof), advice=advice,
    )  # fmt: skip


def _is_late(record: Lateness, seen: TracePicture) -> bool:
    if record.met < MEETINGS or record.late < OFTEN_LATE * record.met:
        return False
    # by chance alone, each rank would be late as often as the average rank
    all_ranks = seen.lateness.values()
    usual = min(0.99, sum(other.late for other in all_ranks) / sum(other.met for other in all_ranks))
    spread = sqrt(record.met * usual * (1 - usual))
    chance = 1 - NormalDist().cdf((record.late - 0.5 - record.met * usual) / spread)
    return chance * len(all_ranks) < CHANCE and record.held_up >= HELD_SHARE * seen.wall


def _part(trace: RankTrace, word: str) -> float:
    return {"compute": trace.compute, "data": trace.data, "idle": trace.idle - trace.data}[word]


def lasting(seconds: float) -> str:
    """``80 µs``, ``4.2 ms``, ``1.5 s``, ``4 min``."""
    if seconds >= 0.9995:
        return duration(seconds)
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.0009995 else f"{seconds * 1e6:.3g} µs"


RULES = (straggler_rank,)
