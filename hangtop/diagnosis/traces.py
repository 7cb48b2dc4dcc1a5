"""What profiler traces of ranks prove together: a rank that comes late, exposed communication, waits for data.

A collective of one rank is found in another rank's trace by its number in the group where the traces have it, else by
its place among the group's calls, if the operations agree.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, median
from typing import NamedTuple

from collectors.samples.traces import RankTrace, TraceCall
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.phrasing import count, duration, on_nodes, ranks_text
from hangtop.diagnosis.tables.thresholds import TRACE_CHANCE

LATE_S, LATE_SHARE, LATE_USUAL = 50e-6, 0.1, 0.5
"""Ours: a rank is late by at least what ranks of a healthy step come apart by, by this share of the others' time in the
collective, and by this share of what is lost in the mean collective: small ones outnumber those that cost time."""
NEAR = 0.25
"""Ours: a rank counts as late with the last one when its time is this near to it, as a share of the distance."""
AGREE = 0.9
"""Ours: share of the calls that must have the same operation for two lists to count as the same calls."""
EXPOSED_SHARE = 0.3
"""Ours: exposed communication over the wall time. Well tuned jobs report 5 to 15 %; at 30 % overlap is worth work."""
DATA_SHARE = 0.3
"""Ours: waiting for a data loader alone, over the wall time; a loader that keeps up shows next to none."""
MEETINGS, OFTEN_LATE = 5, 0.6
"""Ours: collectives with a late rank, and the share of them to which a straggler comes last."""
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
    found = list(_meetings(ranks))
    return TracePicture(tuple(ranks), tuple(unread), len(found), _lateness(found), _together(ranks))


def _meetings(traces: Sequence[RankTrace]) -> Iterator[Mapping[int, float]]:
    """Seconds by rank of each collective that every traced rank of its group has."""
    groups: dict[tuple[str, str], dict[int, list[TraceCall]]] = defaultdict(lambda: defaultdict(list))
    for trace in traces:
        for call in trace.calls:
            if trace.rank is not None and call.op not in ONE_SIDED:
                groups[call.group, call.members][trace.rank].append(call)
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


def _lateness(found: Sequence[Mapping[int, float]]) -> tuple[Lateness, ...]:
    """A collective's kernel runs from a rank's arrival to the common end, so the last to come has the shortest."""
    by_rank = {rank: Lateness(rank) for rank in sorted({rank for seconds in found for rank in seconds})}
    usuals = [median(sorted(seconds.values())[1:]) for seconds in found]
    lost = [usual - min(seconds.values()) for seconds, usual in zip(found, usuals, strict=True)]
    mean = statistics.fmean(lost) if lost else 0.0
    for seconds, usual, own_lost in zip(found, usuals, lost, strict=True):
        least = min(seconds.values())
        some_late = own_lost >= max(LATE_S, LATE_SHARE * usual, LATE_USUAL * mean)
        for rank, own in seconds.items():
            by_rank[rank].met += some_late
            if some_late and own <= least + NEAR * own_lost:
                by_rank[rank].late += 1
                by_rank[rank].held_up += usual - own
    return tuple(by_rank.values())


def _together(ranks: Sequence[RankTrace]) -> tuple[Together, ...]:
    rows: dict[tuple[str, str], dict[int, list[tuple[float, int | None]]]] = defaultdict(lambda: defaultdict(list))
    for place, trace in enumerate(ranks):
        for call in trace.calls:
            rows[call.op, call.group][place].append((call.seconds, trace.rank))
    merged = []
    for (op, group), of in rows.items():
        worst, worst_rank = max((call for calls in of.values() for call in calls), key=lambda call: call[0])
        seconds = median(sum(seconds for seconds, _ in calls) for calls in of.values())
        merged.append(Together(op, group, len(of), max(map(len, of.values())), seconds, worst, worst_rank))
    return tuple(sorted(merged, key=lambda one: (-one.seconds, one.op, one.group)))


# --- findings ----------------------------------------------------------------------------------------------------


def findings(seen: TracePicture) -> tuple[Finding, ...]:
    """All that the traces prove, the root first."""
    late = list(straggler_rank(seen))
    return (*late, *data_bound(seen), *communication_bound(seen, late))


def outcome(seen: TracePicture, found: Iterable[Finding]) -> str:
    """``ok``, ``slow`` or ``failed``, as ``probe --json`` says it."""
    if not seen.ranks:
        return "failed"
    return "slow" if any(found) else "ok"


def _finding(
    kind: str, weight: float, summary: str, told: Sequence[tuple[RankTrace, str]], advice: str, cause: str = ""
) -> Finding:
    """A finding about these traces, each with its words as evidence."""
    return Finding(
        kind, "info" if cause else "warning", weight, summary,
        ranks=tuple(sorted(trace.rank for trace, _ in told if trace.rank is not None)),
        nodes=tuple(sorted({trace.node for trace, _ in told if trace.node})),
        evidence=tuple(
            Evidence(
                Observer.TRACE, trace.path, trace.began,
                f"{trace.path if trace.rank is None else f'rank {trace.rank}'} {text}"
            )
            for trace, text in told[:8]
        ),
        advice=advice, cause=cause,
    )  # fmt: skip


def _who(traces: Sequence[RankTrace], verb: str) -> str:
    """``rank 3 waits``, ``ranks 0-2 wait``, ``2 traces wait``."""
    ranks = [trace.rank for trace in traces if trace.rank is not None]
    return f"{ranks_text(ranks) if ranks else count(len(traces), 'trace')} {verb}{'s' if len(traces) == 1 else ''}"


def straggler_rank(seen: TracePicture) -> Iterator[Finding]:
    """straggler_rank: in most collectives with a late rank it is this one, and that costs the others time.

    Needs five collectives in which a rank was clearly late, and it more often than chance would have it for any rank.
    """
    late = {one.rank: one for one in seen.lateness if _is_late(one, seen)}
    if not late or len(late) > max(1, len(seen.lateness) // 4):
        return
    own = [trace for trace in seen.ranks if trace.rank in late]
    others = [trace for trace in seen.ranks if trace.rank not in late]
    held = median(one.held_up for one in late.values()) / _median_wall(seen)
    more = {word: median(_part(t, word) for t in own) - median(_part(t, word) for t in others) for word in WHY_LATE}
    word = max(more, key=lambda word: more[word])
    why, advice = WHY_LATE[word] if more[word] >= HELD_SHARE * _median_wall(seen) else ("", WHY_LATE["compute"][1])
    where = f"{ranks_text(late)} {on_nodes(sorted({trace.node for trace in own if trace.node}))}".rstrip()
    told = [
        (trace, (f"came last to {one.late} of {count(one.met, 'collective')} in which a rank was late; the others "
                 f"waited {lasting(one.held_up)} for it"))
        for trace in own if trace.rank is not None and (one := late[trace.rank])
    ]  # fmt: skip
    whole = len(seen.ranks) >= max(trace.world_size or 0 for trace in seen.ranks)
    summary = f"the others wait for {where} for {held:.0%} of the time{why}"
    yield _finding("straggler_rank", 0.85 if whole else 0.65, summary, told, advice)


def _is_late(one: Lateness, seen: TracePicture) -> bool:
    if one.met < MEETINGS or one.late < OFTEN_LATE * one.met:
        return False
    # how many come late together, over the ranks, is how often chance would make one of them late
    usual = min(0.99, sum(other.late for other in seen.lateness) / sum(other.met for other in seen.lateness))
    spread = sqrt(one.met * usual * (1 - usual))
    chance = 1 - NormalDist().cdf((one.late - 0.5 - one.met * usual) / spread)
    return chance * len(seen.lateness) < TRACE_CHANCE and one.held_up >= HELD_SHARE * _median_wall(seen)


def _median_wall(seen: TracePicture) -> float:
    return median(trace.wall for trace in seen.ranks) or 1e-9


def _part(trace: RankTrace, word: str) -> float:
    return {"compute": trace.compute, "data": trace.data, "idle": trace.idle - trace.data}[word]


def data_bound(seen: TracePicture) -> Iterator[Finding]:
    """data_bound: half of the ranks or more wait for their data loaders alone for more than the share of the time."""
    bound = [trace for trace in seen.ranks if trace.wall and trace.data >= DATA_SHARE * trace.wall]
    if bound and 2 * len(bound) >= len(seen.ranks):
        share = median(trace.data / trace.wall for trace in bound)
        yield _finding(
            "data_bound", 0.85, f"{_who(bound, 'wait')} for data for {share:.0%} of the time, with nothing else to do",
            [(trace, f"{lasting(trace.data)} of {lasting(trace.wall)} in the data loader alone") for trace in bound],
            "More workers, a larger prefetch factor, or faster storage.",
        )  # fmt: skip


def communication_bound(seen: TracePicture, late: Sequence[Finding]) -> Iterator[Finding]:
    """communication_bound: exposed communication takes more than its share of half of the ranks or more.

    Follows from a straggler where there is one: waiting for a late rank counts as communication.
    """
    bound = [trace for trace in seen.ranks if trace.wall and trace.exposed >= EXPOSED_SHARE * trace.wall]
    if not bound or 2 * len(bound) < len(seen.ranks):
        return
    share = median(trace.exposed / trace.wall for trace in bound)
    heavy = ", ".join(f"{one.op} {one.group}".rstrip() for one in seen.together[:2]) or "the collectives"
    yield _finding(
        "communication_bound", 0.6 if late else 0.85,
        f"{_who(bound, 'spend')} {share:.0%} of the time in communication that no computation hides",
        [(trace, f"exposed {lasting(trace.exposed)} of {lasting(trace.wall)}") for trace in bound],
        f"Overlap or shrink {heavy}: larger buckets, prefetching of shards, a smaller group within the node. "
        "`hangtop probe` shows whether the network gives what it should.",
        cause="straggler_rank" if late else "",
    )  # fmt: skip


def lasting(seconds: float) -> str:
    """``80 µs``, ``4.2 ms``, ``1.5 s``, ``4 min``."""
    if seconds >= 0.9995:
        return duration(seconds)
    if seconds >= 0.0009995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
