"""What profiler traces of ranks prove together: a rank that comes late.

A collective of one rank is found in another rank's trace by its number in the group where the traces have it, else by
its place among the group's calls, if the operations agree.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, median

from collectors.samples.traces import RankTrace, TraceCall
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.phrasing import count, duration, ranks_text

LATE_S, LATE_SHARE, LATE_USUAL = 50e-6, 0.1, 0.5
"""Ours: a rank is late by at least what ranks of a healthy step come apart by, by this share of the others' time in the
collective, and by this share of what is lost in the mean collective: small ones outnumber those that cost time."""
NEAR = 0.25
"""Ours: a rank counts as late with the last one when its time is this near to it, as a share of the distance."""
AGREE = 0.9
"""Ours: share of the calls that must have the same operation for two lists to count as the same calls."""
MEETINGS, OFTEN_LATE = 5, 0.6
"""Ours: collectives with a late rank, and the share of them to which a straggler comes last."""
CHANCE = 0.05
"""Ours: the chance, over all ranks, that a healthy one is late in traces as often; they also tell what it costs."""
HELD_SHARE = 0.05
"""Ours: time for which the others wait for it, over the wall time; less is not worth a look."""
ONE_SIDED = frozenset(("send", "recv", "send_recv", "broadcast", "reduce", "gather", "scatter"))
"""Not every rank waits for every other one: the root of a broadcast is done first though it may have come first."""
WHY_LATE = {
    "compute": (": it computes longer", "Compare clocks and temperature of its GPU with its peers', and its work."),
    "data": (": it waits for its data loader", "Look at the storage that it reads from, and its worker processes."),
    "idle": (": it does nothing for longer", "Look at its stacks (hangtop stacks), its CPU and other processes there."),
}
"""What a late rank may do more of than the others; what that says, and what to look at."""


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


@dataclass(frozen=True, slots=True)
class TracePicture:
    """What the traces say together. ``ranks`` has one a rank, by rank."""

    ranks: tuple[RankTrace, ...]
    lateness: Mapping[int | None, Lateness]
    """By rank, of those whose collectives could be compared."""

    @property
    def wall(self) -> float:
        """Median length of a trace, seconds."""
        return median(trace.wall for trace in self.ranks) or 1e-9


def picture(traces: Sequence[RankTrace]) -> TracePicture:
    """Put traces together. Of several of one rank the one that covers most time counts."""
    longest_last = sorted(traces, key=lambda trace: trace.wall)
    best = {trace.path if trace.rank is None else trace.rank: trace for trace in longest_last}
    ranks = sorted(best.values(), key=lambda trace: (trace.rank is None, trace.rank or 0, trace.path))
    return TracePicture(tuple(ranks), _lateness(list(_meetings(ranks))))


def _meetings(traces: Sequence[RankTrace]) -> Iterator[Mapping[int, float]]:
    """Seconds by rank of each collective that every traced rank of its group has."""
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
    """Which of the other rank's calls is the same as each of these, by place; empty when they cannot be compared."""
    if all(call.seq is not None for call in (*calls, *others)):
        by_number = {(call.op, call.seq): call for call in others}
        found = {place: by_number.get((call.op, call.seq)) for place, call in enumerate(calls)}
        return {place: other for place, other in found.items() if other is not None}
    same = {place: two for place, (one, two) in enumerate(zip(calls, others, strict=False)) if one.op == two.op}
    return same if len(same) >= AGREE * min(len(calls), len(others)) else {}


def _lateness(found: Sequence[Mapping[int, float]]) -> dict[int | None, Lateness]:
    """A collective's kernel runs from a rank's arrival to the common end, so the last to come has the shortest."""
    by_rank: dict[int | None, Lateness] = {}
    usuals = [median(sorted(seconds.values())[1:]) for seconds in found]
    lost = [usual - min(seconds.values()) for seconds, usual in zip(found, usuals, strict=True)]
    mean = statistics.fmean(lost) if lost else 0.0
    for seconds, usual, own_lost in zip(found, usuals, lost, strict=True):
        least = min(seconds.values())
        some_late = own_lost >= max(LATE_S, LATE_SHARE * usual, LATE_USUAL * mean)
        for rank, own in seconds.items():
            one = by_rank.setdefault(rank, Lateness(rank))
            one.met += some_late
            if some_late and own <= least + NEAR * own_lost:
                one.late += 1
                one.held_up += usual - own
    return by_rank


# --- findings ----------------------------------------------------------------------------------------------------


def straggler_rank(seen: TracePicture) -> Iterator[Finding]:
    """straggler_rank: in most collectives with a late rank it is this one, and that costs the others time.

    Needs five collectives in which a rank was clearly late, and it more often than chance would have it for any rank.
    """
    late = {rank: one for rank, one in seen.lateness.items() if _is_late(one, seen)}
    if not late or len(late) > max(1, len(seen.lateness) // 4):
        return
    own = [trace for trace in seen.ranks if trace.rank in late]
    others = [trace for trace in seen.ranks if trace.rank not in late]
    held = median(one.held_up for one in late.values()) / seen.wall
    more = {word: median(_part(t, word) for t in own) - median(_part(t, word) for t in others) for word in WHY_LATE}
    word = max(more, key=lambda word: more[word])
    why, advice = WHY_LATE[word] if more[word] >= HELD_SHARE * seen.wall else ("", WHY_LATE["compute"][1])
    where = ranks_text([one.rank for one in late.values()])
    told = [
        (trace, (f"rank {one.rank} came last to {one.late} of {count(one.met, 'collective')} in which a rank was late; "
                 f"the others waited {lasting(one.held_up)} for it"))
        for trace in own for one in [late[trace.rank]]
    ]  # fmt: skip
    whole = len(seen.ranks) >= max(trace.world_size or 0 for trace in seen.ranks)
    yield Finding(
        "straggler_rank", "warning", 0.85 if whole else 0.65,
        f"the others wait for {where} for {held:.0%} of the time{why}",
        ranks=tuple(sorted(one.rank for one in late.values())), advice=advice,
        evidence=tuple(Evidence(Observer.TRACE, trace.path, trace.began, text) for trace, text in told[:8]),
    )  # fmt: skip


def _is_late(one: Lateness, seen: TracePicture) -> bool:
    if one.met < MEETINGS or one.late < OFTEN_LATE * one.met:
        return False
    # how many come late together, over the ranks, is how often chance would make one of them late
    every = seen.lateness.values()
    usual = min(0.99, sum(other.late for other in every) / sum(other.met for other in every))
    spread = sqrt(one.met * usual * (1 - usual))
    chance = 1 - NormalDist().cdf((one.late - 0.5 - one.met * usual) / spread)
    return chance * len(every) < CHANCE and one.held_up >= HELD_SHARE * seen.wall


def _part(trace: RankTrace, word: str) -> float:
    return {"compute": trace.compute, "data": trace.data, "idle": trace.idle - trace.data}[word]


def lasting(seconds: float) -> str:
    """``80 µs``, ``4.2 ms``, ``1.5 s``, ``4 min``."""
    if seconds >= 0.9995:
        return duration(seconds)
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.0009995 else f"{seconds * 1e6:.3g} µs"
