"""Where waits end: the ranks that all others wait for in the end, and circles that no wait leads out of.

When two ranks wait for each other in different groups, the pair cannot tell which of the two launched its operations in
the wrong order. Groups of one description and size play one role: their ranks launch the same collectives in the same
order, so that other ranks in the same roles can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import GroupHistory, LaunchHistory
from hangtop.diagnosis.collectives.progress import LaunchProgress, WaitEdge

_Point: TypeAlias = "tuple[Group, int]"
"""A collective: its group and sequence number."""


class Ends(NamedTuple):
    """The ends of a set of waits, sorted."""

    ranks: tuple[int, ...] = ()
    """Ranks that are waited for and wait for nobody."""
    circle: tuple[int, ...] = ()
    """Ranks of circles without a way out, by certain waits alone."""
    undumped: tuple[int, ...] = ()
    """Ends without a dump, where nothing certain leads elsewhere."""


def ends_of(edges: Sequence[WaitEdge], busy: Collection[int], dumped: Collection[int]) -> Ends:
    """Follow waits to their ends. ``busy`` are ranks with something open, which are no ends of their own.

    A rank that waits in what all others joined, too, is no culprit. Neither is one of which no more is known than that
    it has no dump, as long as one is known to have stayed away, or has a dump and nothing open: it may be that one.
    """
    sure: dict[int, set[int]] = defaultdict(set)
    every: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        every[edge.waiter].update(edge.for_ranks)
        if edge.certain:
            sure[edge.waiter].update(edge.for_ranks)
    awaited = {rank for targets in sure.values() for rank in targets}
    ranks = {rank for rank in awaited if rank not in busy and not every.get(rank)}
    core = dict(sure)
    while dead := [rank for rank, targets in core.items() if not targets & core.keys()]:  # most waits lead to an end
        core = {rank: targets for rank, targets in core.items() if rank not in set(dead)}
    onward = {rank: _reached(rank, every) for rank in core}
    circle = {rank for rank, after in onward.items() if rank in after and all(rank in onward.get(n, ()) for n in after)}
    missing = {rank for edge in edges if edge.why == "not dumped" for rank in edge.for_ranks} - set(dumped)
    accusable = not ranks and not circle and set(dumped) <= set(busy) and len(missing) <= len(every)
    return Ends(tuple(sorted(ranks)), tuple(sorted(circle)), tuple(sorted(missing)) if accusable else ())


def _reached(start: int, waits: Mapping[int, Iterable[int]]) -> set[int]:
    """All that a rank waits for, directly or through others; itself, where it waits in a circle."""
    seen: set[int] = set()
    todo = list(waits.get(start, ()))
    while todo:
        rank = todo.pop()
        if rank not in seen:
            seen.add(rank)
            todo += waits.get(rank, ())
    return seen


def strayed(
    histories: Mapping[int, LaunchHistory],
    by_group: Mapping[Group, Mapping[int, GroupHistory]],
    progress: Mapping[Group, LaunchProgress],
) -> tuple[int, ...]:
    """Ranks that left the order of operations; both sides of one contradiction where nothing tells which.

    A rank that others wait for in one operation, and that waits in a collective itself, launched the second without the
    first. It is wrong where most ranks in the same roles launch the first before the second. Without any, whichever
    rank waits for it may show that order; then the rank that contradicts all the others is the one.
    """
    places: dict[tuple[tuple[str, int], int], dict[int, int]] = defaultdict(dict)
    for group, own in by_group.items():
        for rank, history in own.items():
            for seq, place in history.places.items():
                places[_role(group), seq][rank] = place

    @cache
    def ordered(first: _Point, second: _Point) -> frozenset[int]:
        """Ranks that launched the first before the second, each in whatever group of that role they are in."""
        ones, others = (places[_role(group), seq] for group, seq in (first, second))
        return frozenset(rank for rank, place in ones.items() if rank in others and place < others[rank])

    wrong: set[int] = set()
    against: list[set[int]] = []
    for waiter, rank, first, place in _missed(by_group, progress):
        for group, history in histories[rank].groups.items():
            if not history.unfinished:
                continue
            second = group, min(history.unfinished)
            before, after = (ordered(*pair) - {waiter, rank} for pair in ((first, second), (second, first)))
            if len(before) > len(after):
                wrong.add(rank)
            its = by_group[group].get(waiter)
            if not before and not after and its is not None and its.places.get(second[1], -1) > place:
                against.append({waiter, rank})
    if wrong or not against:
        return tuple(wrong) if len(wrong) == 1 else ()
    return tuple(sorted(set.intersection(*against)))


def _missed(
    by_group: Mapping[Group, Mapping[int, GroupHistory]], progress: Mapping[Group, LaunchProgress]
) -> Iterator[tuple[int, int, _Point, int]]:
    """A rank that waits, one that has not launched that, which collective, and where the waiter launched it."""
    for group, one in progress.items():
        absent = {seq: one.not_launched(seq) for seq in {operation.seq for operation in one.waiting.values()}}
        for waiter, operation in one.waiting.items():
            place = by_group[group][waiter].places[operation.seq]
            for rank in absent[operation.seq]:
                yield waiter, rank, (group, operation.seq), place


def _role(group: Group) -> tuple[str, int]:
    return group.description or group.name, len(group.ranks)
