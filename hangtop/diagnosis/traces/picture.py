"""All ranks' traces together: which rank was waited for, how much of that was waiting, the heaviest collectives.

A collective of one rank is found in another rank's trace by its number in the group where the traces have it, else by
its place among the group's calls, if operations and sizes agree.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectors.samples.traces import RankTrace, TraceCall

LATE_S = 50e-6
"""Ours: what ranks come apart by in a healthy step; launching a kernel takes ten microseconds."""
LATE_SHARE = 0.1
"""Ours: of the others' time in the collective."""
LATE_USUAL = 0.5
"""Ours: of the mean over all collectives of what was lost: small ones, to which ranks come as they happen to, would
outnumber those that cost time."""
NEAR = 0.25
"""Ours: a rank counts as late with the last one when its time is this near to it, as a share of the distance."""
AGREE = 0.9
"""Ours: share of the calls that must have equal operation and size for two lists to count as the same calls."""
ONE_SIDED = frozenset(("send", "recv", "send_recv", "broadcast", "reduce", "gather", "scatter"))
"""Not every rank waits for every other one: the root of a broadcast is done first though it may have come first."""


def meetings(traces: Sequence[RankTrace]) -> list[Mapping[int, float]]:
    """Seconds by rank of all collectives that every traced rank of their group has, in the order of the calls."""
    groups: dict[tuple[str, str], dict[int, list[TraceCall]]] = defaultdict(lambda: defaultdict(list))
    for trace in traces:
        ranks_of = {total.group: total.ranks for total in trace.totals}  # groups of different ranks may share a name
        for call in trace.calls if trace.rank is not None else ():
            if call.op not in ONE_SIDED and trace.rank is not None:
                groups[call.group, ranks_of.get(call.group, "")][trace.rank].append(call)
    return [seconds for members in groups.values() if len(members) > 1 for seconds in _of_group(members)]


def _of_group(members: Mapping[int, list[TraceCall]]) -> list[Mapping[int, float]]:
    first = max(members, key=lambda rank: (len(members[rank]), -rank))
    pairs = {rank: _paired(members[first], calls) for rank, calls in members.items() if rank != first}
    met = {rank: paired for rank, paired in pairs.items() if paired}
    return [
        {first: call.seconds} | {rank: paired[place].seconds for rank, paired in met.items()}
        for place, call in enumerate(members[first])
        if met and all(place in paired for paired in met.values())
    ]


def _paired(calls: Sequence[TraceCall], others: Sequence[TraceCall]) -> dict[int, TraceCall]:
    """Which of the other rank's calls is the same as each of these, by place; empty when they cannot be compared."""
    if all(call.seq is not None for call in (*calls, *others)):
        by_number = {(call.op, call.seq): call for call in others}
        found = {place: by_number.get((call.op, call.seq)) for place, call in enumerate(calls)}
        return {place: other for place, other in found.items() if other is not None}
    same = {place: other for place, (call, other) in enumerate(zip(calls, others, strict=False)) if _same(call, other)}
    return same if len(same) >= AGREE * min(len(calls), len(others)) else {}


def _same(one: TraceCall, other: TraceCall) -> bool:
    return one.op == other.op and (one.size == other.size or one.size is None or other.size is None)


@dataclass(slots=True)
class Lateness:
    """How one rank came to the collectives that it shares with others."""

    rank: int
    met: int = 0
    """Collectives in which some rank was clearly late."""
    late: int = 0
    """Of these, how often it was this rank (or one of those that came with it)."""
    held_up: float = 0.0
    """Seconds for which the median of the others waited for it."""
    waited: float = 0.0
    """Seconds that it waited for others itself: its time in collectives over that of the last to come."""


class Together(NamedTuple):
    """One operation of one group over all ranks."""

    op: str
    group: str
    ranks: int
    """Ranks whose traces have it."""
    calls: int
    """On the rank with most."""
    seconds: float
    """Median over the ranks of the time they spent in it."""
    worst: float
    """The longest single call, seconds."""
    worst_rank: int | None
    size: int | None
    """Bytes in all, on the rank with most."""


@dataclass(frozen=True, slots=True)
class TracePicture:
    """What the traces say together. ``ranks`` are those that could be read, one a rank, by rank."""

    ranks: tuple[RankTrace, ...]
    unread: tuple[RankTrace, ...]
    """Files that are no trace, or have nothing that counts, with the reason."""
    met: int
    """Collectives that could be compared among ranks."""
    lateness: tuple[Lateness, ...]
    together: tuple[Together, ...]
    """The heaviest first."""

    @property
    def steps(self) -> int:
        """Profiler steps, on the rank with most."""
        return max((len(trace.steps) for trace in self.ranks), default=0)

    def late(self, rank: int | None) -> Lateness | None:
        """A rank's lateness, where it could be compared."""
        return next((one for one in self.lateness if one.rank == rank), None)


def picture(traces: Sequence[RankTrace]) -> TracePicture:
    """Put traces together. Of several of one rank the one that covers most time counts."""
    best: dict[int | tuple[str, str], RankTrace] = {}
    unread = []
    for trace in sorted(traces, key=lambda trace: trace.wall):
        if trace.events:
            best[trace.rank if trace.rank is not None else (trace.node, trace.path)] = trace
        else:
            unread.append(trace._replace(why=trace.why or "it has no operator, kernel or step"))
    ranks = sorted(best.values(), key=lambda trace: (trace.rank is None, trace.rank or 0, trace.node, trace.path))
    found = meetings(ranks)
    return TracePicture(tuple(ranks), tuple(unread), len(found), _lateness(found), _together(ranks))


def _lateness(found: Sequence[Mapping[int, float]]) -> tuple[Lateness, ...]:
    by_rank = {rank: Lateness(rank) for rank in sorted({rank for seconds in found for rank in seconds})}
    usuals = [_usual(seconds) for seconds in found]
    lost = [usual - min(seconds.values()) for seconds, usual in zip(found, usuals, strict=True)]
    mean = statistics.fmean(lost) if lost else 0.0
    for seconds, usual in zip(found, usuals, strict=True):
        least = min(seconds.values())
        some_late = usual - least >= max(LATE_S, LATE_SHARE * usual, LATE_USUAL * mean)
        for rank, own in seconds.items():
            one = by_rank[rank]
            one.waited += own - least
            one.met += some_late
            if some_late and own <= least + NEAR * (usual - least):
                one.late += 1
                one.held_up += usual - own
    return tuple(by_rank.values())


def _usual(seconds: Mapping[int, float]) -> float:
    """Median seconds of all but the last to come."""
    last = min(seconds, key=lambda rank: seconds[rank])
    return statistics.median(own for rank, own in seconds.items() if rank != last)


def _together(ranks: Sequence[RankTrace]) -> tuple[Together, ...]:
    rows = defaultdict(list)
    for trace in ranks:
        for total in trace.totals:
            rows[total.op, total.group].append((total, trace.rank))
    merged = []
    for (op, group), of in rows.items():
        worst, worst_rank = max(of, key=lambda pair: pair[0].worst)
        most = max((total for total, _ in of), key=lambda total: total.calls)
        seconds = statistics.median(total.seconds for total, _ in of)
        merged.append(Together(op, group, len(of), most.calls, seconds, worst.worst, worst_rank, most.size))
    return tuple(sorted(merged, key=lambda one: (-one.seconds, one.op, one.group)))
