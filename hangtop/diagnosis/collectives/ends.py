"""Waits that do not end: cycles of ranks, and the rank that launched operations in another order.

When two ranks wait for each other in different groups, the pair alone does not show which of the two launched its
operations in the wrong order. Groups of one description and size have one role: their ranks launch the same collectives
in the same order, so that other ranks in the same roles show the right order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import LaunchProgress
from hangtop.diagnosis.collectives.recorded import RankInGroup


def cycle_of(waits: Mapping[int, Collection[int]]) -> set[int]:
    """Ranks in cycles of waits, without the ranks whose waits lead to an end and the ranks that no rank waits for."""
    left = {rank: set(targets) for rank, targets in waits.items()}
    while True:
        awaited = set().union(*left.values())
        core = {rank: targets & left.keys() for rank, targets in left.items() if rank in awaited}
        core = {rank: targets for rank, targets in core.items() if targets}
        if len(core) == len(left):
            return set(core)
        left = core


def strayed(groups: Mapping[Group, Mapping[int, RankInGroup]], progress: Mapping[Group, LaunchProgress]) -> set[int]:
    """The rank with the wrong order of operations, by the order of other ranks; empty if these do not show it.

    Others wait for this rank in one operation while it waits in a second one: it launched the second without the first.
    That is wrong if most ranks in the same roles launch the first before the second.
    """
    places: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for group, members in groups.items():
        for rank, collectives in members.items():
            for seq, place in collectives.places.items():
                places[(*_role(group), seq)][rank] = place
    wrong: set[int] = set()
    for group, record in progress.items():
        for waiter, operation in record.waiting.items():
            first = places[(*_role(group), operation.seq)]
            for rank in record.not_launched(operation.seq):
                waits_in = [(other, members[rank].unfinished) for other, members in groups.items() if rank in members]
                for other, unfinished in waits_in:
                    second = places[(*_role(other), unfinished[0])] if unfinished else {}
                    both = (first.keys() & second.keys()) - {waiter, rank}
                    if 2 * sum(first[peer] < second[peer] for peer in both) > len(both):
                        wrong.add(rank)
    return wrong if len(wrong) == 1 else set()


def _role(group: Group) -> tuple[str, int]:
    return group.description or group.name, len(group.ranks)
