"""The same collective in the traces of several ranks.

Calls are paired by their number in the group where the traces have it, else by their order: traces that do not begin at
the same call are shifted against each other until operations and sizes agree. Of several shifts that agree the right
one is that under which the ends of the calls differ by a constant, because a collective ends on all ranks at about the
same time while its beginnings differ; the constant is the difference of the clocks, which so needs not be known.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectors.samples.traces import RankTrace, TraceCall

SHIFT = 16
"""Calls by which two traces may begin apart."""
COMPARED = 400
"""Calls by which a shift is judged."""
AGREE = 0.9
"""Ours: share of pairs with equal operation and size from which two lists count as the same calls."""
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
    shift = _shift(calls, others)
    if shift is None:
        return {}
    pairs = ((place, place + shift) for place in range(len(calls)))
    return {
        place: others[other]
        for place, other in pairs
        if 0 <= other < len(others) and _same(calls[place], others[other])
    }


def _shift(calls: Sequence[TraceCall], others: Sequence[TraceCall]) -> int | None:
    """By how many calls the other list begins earlier; None when no shift makes them agree."""
    spreads: dict[int, float] = {}
    for shift in sorted(range(-SHIFT, SHIFT + 1), key=abs):
        start = max(0, -shift)
        length = min(len(calls) - start, len(others) - start - shift, COMPARED)
        pairs = [(calls[start + n], others[start + n + shift]) for n in range(max(0, length))]
        if pairs and sum(_same(*pair) for pair in pairs) >= AGREE * len(pairs):
            apart = [(b.start + b.seconds) - (a.start + a.seconds) for a, b in pairs]
            middle = statistics.median(apart)
            spreads[shift] = statistics.median(abs(one - middle) for one in apart)
    if not spreads:
        return None
    # few pairs agree by chance: a shift must be clearly better than the smallest one to be believed
    best = min(spreads, key=lambda shift: spreads[shift])
    usual = next(iter(spreads))
    enough = min(len(calls), len(others)) > 2 * SHIFT
    return best if enough and spreads[best] < spreads[usual] / 2 else usual


def _same(one: TraceCall, other: TraceCall) -> bool:
    return one.op == other.op and (one.size == other.size or one.size is None or other.size is None)
