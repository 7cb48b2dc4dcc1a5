"""All ranks' traces together: which rank was waited for, how much of that was waiting, the heaviest collectives.

A collective of one rank is found in another rank's trace by its number in the group where the traces have it, else by
its place among the group's calls, if operations and sizes agree.
"""

from __future__ import annotations

import statistics
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


class TracedCollective(NamedTuple):
    """One collective of a group, as several ranks saw it."""

    op: str
    group: str
    size: int | None
    seconds: Mapping[int, float]
    """By rank."""
    complete: bool
    """Every rank of the group is among them, as far as is known."""


def meetings(traces: Sequence[RankTrace]) -> list[TracedCollective]:
    """All collectives that every traced rank of their group has, group by group in the order of the calls."""
    found: list[TracedCollective] = []
    for group, members in _groups(traces).items():
        if len(members) > 1:
            found += _of_group(group[0], members, _size(traces, group[0]))
    return found


def _groups(traces: Sequence[RankTrace]) -> dict[tuple[str, str], dict[int, list[TraceCall]]]:
    """Calls by (group, its members) and rank: groups of different ranks may share a name."""
    groups: dict[tuple[str, str], dict[int, list[TraceCall]]] = {}
    for trace in traces:
        if trace.rank is None:
            continue
        ranks_of = {total.group: total.ranks for total in trace.totals}
        for call in trace.calls:
            if call.op not in ONE_SIDED:
                key = call.group, ranks_of.get(call.group, "")
                groups.setdefault(key, {}).setdefault(trace.rank, []).append(call)
    return groups


def _size(traces: Sequence[RankTrace], group: str) -> int | None:
    """Ranks of a group: as it says itself; one without a name is the world."""
    told = [total.group_size for trace in traces for total in trace.totals if total.group == group]
    told += [] if group else [trace.world_size for trace in traces]
    return max((size for size in told if size is not None), default=None)


def _of_group(group: str, members: Mapping[int, list[TraceCall]], size: int | None) -> list[TracedCollective]:
    first = max(members, key=lambda rank: (len(members[rank]), -rank))
    pairs = {rank: _paired(members[first], calls) for rank, calls in members.items() if rank != first}
    met = {rank: paired for rank, paired in pairs.items() if paired}
    if not met:
        return []
    complete = size is not None and len(met) + 1 >= size
    found = []
    for place, call in enumerate(members[first]):
        seconds = {first: call.seconds}
        seconds |= {rank: paired[place].seconds for rank, paired in met.items() if place in paired}
        if len(seconds) == len(met) + 1:
            found.append(TracedCollective(call.op, group, call.size, seconds, complete))
    return found


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


@dataclass(frozen=True, slots=True)
class Lateness:
    """How one rank came to the collectives that it shares with others."""

    rank: int
    met: int
    """Collectives in which somebody was clearly late."""
    late: int
    """Of these, how often it was this rank (or one of those that came with it)."""
    held_up: float
    """Seconds for which the median of the others waited for it."""
    waited: float
    """Seconds that it waited for others itself: its time in collectives over that of the last to come."""

    @property
    def share(self) -> float:
        """Share of the collectives with a late rank."""
        return self.late / self.met if self.met else 0.0


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
    """What the traces say together. ``ranks`` are those that could be read and have a rank, by rank."""

    ranks: tuple[RankTrace, ...]
    unread: tuple[RankTrace, ...]
    """Files that are no trace, or have nothing that counts, with the reason."""
    met: int
    """Collectives that could be compared among ranks."""
    complete: bool
    """They were seen by all members of their groups."""
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
    for trace in traces:
        if not trace.events:
            unread.append(trace._replace(why=trace.why or "it has no operator, kernel or step"))
            continue
        key = trace.rank if trace.rank is not None else (trace.node, trace.path)
        other = best.get(key)
        if other is None or trace.wall > other.wall:
            best[key] = trace
        if other is not None:
            left = other if best[key] is trace else trace
            unread.append(left._replace(why=f"rank {trace.rank} has a longer trace: {best[key].path}"))
    ranks = sorted(best.values(), key=lambda trace: (trace.rank is None, trace.rank or 0, trace.node, trace.path))
    found = meetings(ranks)
    complete = bool(found) and all(meeting.complete for meeting in found)
    return TracePicture(tuple(ranks), tuple(unread), len(found), complete, _lateness(found), _together(ranks))


def _lateness(found: Sequence[TracedCollective]) -> tuple[Lateness, ...]:
    met: dict[int, int] = {}
    late: dict[int, int] = {}
    held: dict[int, float] = {}
    waited: dict[int, float] = {}
    usuals = [_usual(meeting) for meeting in found]
    mean = sum(usual - min(meeting.seconds.values()) for meeting, usual in zip(found, usuals, strict=True))
    mean /= max(1, len(found))
    for meeting, usual in zip(found, usuals, strict=True):
        least = min(meeting.seconds.values())
        for rank, seconds in meeting.seconds.items():
            waited[rank] = waited.get(rank, 0.0) + seconds - least
        if usual - least < max(LATE_S, LATE_SHARE * usual, LATE_USUAL * mean):
            continue
        for rank, seconds in meeting.seconds.items():
            met[rank] = met.get(rank, 0) + 1
            if seconds <= least + NEAR * (usual - least):
                late[rank] = late.get(rank, 0) + 1
                held[rank] = held.get(rank, 0.0) + usual - seconds
    return tuple(
        Lateness(rank, met.get(rank, 0), late.get(rank, 0), held.get(rank, 0.0), waited[rank])
        for rank in sorted(waited)
    )


def _usual(meeting: TracedCollective) -> float:
    """Median seconds of all but the last to come."""
    last = min(meeting.seconds, key=lambda rank: meeting.seconds[rank])
    return statistics.median(seconds for rank, seconds in meeting.seconds.items() if rank != last)


def _together(ranks: Sequence[RankTrace]) -> tuple[Together, ...]:
    rows: dict[tuple[str, str], list[tuple[RankTrace, int]]] = {}
    for trace in ranks:
        for place, total in enumerate(trace.totals):
            rows.setdefault((total.op, total.group), []).append((trace, place))
    merged = []
    for (op, group), of in rows.items():
        totals = [trace.totals[place] for trace, place in of]
        worst, place = max((total.worst, -index) for index, total in enumerate(totals))
        most = max(totals, key=lambda total: total.calls)
        merged.append(
            Together(
                op, group, len(of), most.calls, statistics.median(total.seconds for total in totals), worst,
                of[-place][0].rank, most.size,
            )
        )  # fmt: skip
    return tuple(sorted(merged, key=lambda one: (-one.seconds, one.op, one.group)))
