"""Of points at which all ranks of a job wait, those that are the odd ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hangtop.diagnosis.waits.points import WaitPoint


def of_all(point: WaitPoint) -> bool:
    """Its frames say that the operation is one of the whole job's."""
    return all(member.activity is not None and member.activity.world is True for member in point.members)


def went_on(outer: Sequence[WaitPoint], others: Sequence[WaitPoint]) -> bool:
    """A few are in an operation of the whole job, while all others are at one other line, in whatever it calls."""
    lines = {member.where for point in others for member in point.members}
    few = sum(len(point.members) for point in outer) < sum(len(point.members) for point in others)
    return bool(outer) and few and len(lines) == 1 and lines.isdisjoint(m.where for p in outer for m in p.members)


def at_other_roots(points: Sequence[WaitPoint]) -> tuple[list[WaitPoint], bool]:
    """Those who are in one operation at one line, and each party for another root, and whether it is open who erred.

    Of these the smaller ones: who was through with its part of that has gone on, be it one or most. Who is itself the
    root of the others may have been through with that, and have come to the next of a loop over all roots.
    """
    alike: dict[tuple[str, str, str], list[WaitPoint]] = defaultdict(list)
    for point in points:
        if point.root is not None:
            alike[point.kind, point.op, point.place].append(point)
    parties = next((found for found in alike.values() if len(found) > 1), [])
    largest = max((len(point.members) for point in parties), default=0)
    roots = {point.root for point in parties if len(point.members) == largest}
    fewer = [point for point in parties if len(point.members) < largest]
    if not fewer or any(set(point.ranks) <= roots for point in fewer):
        return parties, True
    return fewer, False


def odd_points(points: tuple[WaitPoint, ...]) -> tuple[list[WaitPoint], bool]:
    """Choose the points to accuse by how few are there, and tell whether that was undecided.

    Ranks in the same function of the program are in one loop, at most an operation apart; those in another function
    left it. So functions are counted first, and places within them only where all are in one.
    """
    by_path: dict[tuple[str, ...], list[WaitPoint]] = defaultdict(list)
    for point in points:
        by_path[point.path].append(point)
    groups = list(by_path.values()) if len(by_path) > 1 else [[point] for point in points]
    sizes = [sum(len(point.members) for point in group) for group in groups]
    largest = max(sizes)
    odd = [point for group, size in zip(groups, sizes, strict=True) if size < largest for point in group]
    if not odd or sizes.count(largest) > 1:
        return list(points), True
    return odd, False
