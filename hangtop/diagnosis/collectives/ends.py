"""Where waits end: the ranks that all others wait for in the end, and circles that no wait leads out of.

When two ranks wait for each other in different groups, the pair cannot tell which of the two launched its operations in
the wrong order. Groups of one description and size play one role: their ranks launch the same collectives in the same
order, so that other ranks in the same roles can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import LaunchProgress, WaitEdge
from hangtop.diagnosis.collectives.recorded import RankInGroup


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
    missing = {rank for edge in edges if edge.untold for rank in edge.for_ranks} - set(dumped)
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


def strayed(groups: Mapping[Group, Mapping[int, RankInGroup]], progress: Mapping[Group, LaunchProgress]) -> set[int]:
    """The rank that left the order of operations, where the order of other ranks tells; none where it does not.

    A rank that others wait for in one operation, and that waits in a collective itself, launched the second without the
    first. It is wrong where most ranks in the same roles launch the first before the second.
    """
    places: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for group, members in groups.items():
        for rank, own in members.items():
            for seq, place in own.places.items():
                places[(*_role(group), seq)][rank] = place
    wrong: set[int] = set()
    for group, one in progress.items():
        for waiter, operation in one.waiting.items():
            first = places[(*_role(group), operation.seq)]
            for rank in one.not_launched(operation.seq):
                waits_in = [(other, members[rank].unfinished) for other, members in groups.items() if rank in members]
                for other, unfinished in waits_in:
                    second = places[(*_role(other), unfinished[0])] if unfinished else {}
                    both = (first.keys() & second.keys()) - {waiter, rank}
                    if 2 * sum(first[each] < second[each] for each in both) > len(both):
                        wrong.add(rank)
    return wrong if len(wrong) == 1 else set()


def _role(group: Group) -> tuple[str, int]:
    return group.description or group.name, len(group.ranks)
