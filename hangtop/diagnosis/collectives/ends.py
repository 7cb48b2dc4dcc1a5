"""Where waits end: the ranks that all others wait for in the end, and circles.

When two ranks wait for each other in different groups, the pair cannot tell which of the two launched its operations in
the wrong order. Groups of one description and size play one role: their ranks launch the same collectives in the same
order, so that other ranks in the same roles can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import LaunchProgress, WaitEdge
from hangtop.diagnosis.collectives.recorded import RankInGroup


class Ends(NamedTuple):
    """The ends of a set of waits, sorted."""

    ranks: tuple[int, ...] = ()
    """Ranks that are waited for and wait for nobody."""
    circle: tuple[int, ...] = ()
    """Ranks of circles, by certain waits alone."""
    undumped: tuple[int, ...] = ()
    """Ends without a dump, where nothing certain leads elsewhere."""


def ends_of(edges: Sequence[WaitEdge], busy: Collection[int], dumped: Collection[int]) -> Ends:
    """Follow waits to their ends. ``busy`` are ranks with something open, which are no ends of their own.

    A rank that waits in what all others joined, too, is no culprit. Neither is one of which no more is known than that
    it has no dump, as long as one is known to have stayed away.
    """
    sure: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        if edge.certain:
            sure[edge.waiter].update(edge.for_ranks)
    waiters = {edge.waiter for edge in edges}
    ranks = set().union(*sure.values()) - waiters - set(busy)
    circle = circle_of(sure)
    missing = {rank for edge in edges if edge.untold for rank in edge.for_ranks} - set(dumped)
    return Ends(tuple(sorted(ranks)), tuple(sorted(circle)), () if ranks or circle else tuple(sorted(missing)))


def circle_of(waits: Mapping[int, Collection[int]]) -> set[int]:
    """Ranks that wait in circles: all but those whose waits lead to an end, or for whom nobody waits."""
    left = {rank: set(targets) for rank, targets in waits.items()}
    while True:
        awaited = set().union(*left.values())
        core = {rank: targets & left.keys() for rank, targets in left.items() if rank in awaited}
        core = {rank: targets for rank, targets in core.items() if targets}
        if len(core) == len(left):
            return set(core)
        left = core


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
