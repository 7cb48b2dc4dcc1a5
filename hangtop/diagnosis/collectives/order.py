"""The order in which ranks launch their operations: others in the same role tell which of two sides left it.

Groups of one description and size play one role: their ranks launch the same collectives in the same order. When the
two ranks of a pair are at different operations, or two ranks wait for each other in different groups, the pair itself
cannot tell which is wrong; ranks of other pairs whose history up to there was the same can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from collectors.samples.collectives import Collective
from hangtop.diagnosis.collectives.edges import Recorded
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import GroupHistory, operation_of
from hangtop.diagnosis.collectives.mismatch import What

WINDOW = 200
"""Operations before a point over which histories are compared."""
_Point: TypeAlias = "tuple[Group, int]"


class LaunchOrder:
    """What every rank launched in each role that it plays."""

    def __init__(self, given: Recorded) -> None:
        self._given = given
        self._of_role: dict[tuple[str, int], list[tuple[Group, int, GroupHistory]]] = defaultdict(list)
        self._orders: dict[tuple[_Point, _Point], frozenset[int]] = {}
        for group, own in given.by_group.items():
            for rank, history in own.items():
                self._of_role[_role(group)].append((group, rank, history))

    def right_one(self, group: Group, seq: int, values: Mapping[int, str], what: What) -> str | None:
        """Which value at a number is right, of those that the ranks of a group have there; None where nothing tells."""
        confirmed = {
            value
            for rank, value in values.items()
            for entry in self._launched_alike(group, seq, rank)
            if getattr(operation_of(entry, ""), what) == value
        }
        return next(iter(confirmed)) if len(confirmed) == 1 else None

    def _launched_alike(self, group: Group, seq: int, rank: int) -> Iterator[Collective]:
        """What ranks of other groups in the same role launched at a number after the same history as this rank."""
        own = self._before(rank, self._given.by_group[group][rank].places[seq])
        for other, other_rank, history in self._of_role[_role(group)]:
            alike = other != group and seq in history.entries
            if alike and _alike(own, self._before(other_rank, history.places[seq])):
                yield history.entries[seq]

    def _before(self, rank: int, place: int) -> Sequence[Collective]:
        return self._given.dumps[rank].collectives[max(0, place - WINDOW) : place]

    def strayed(self) -> tuple[int, ...]:
        """Ranks that left the order of operations; both sides of one contradiction where nothing tells which.

        A rank that others wait for in one operation, and that waits in a collective itself, launched the second without
        the first. It is wrong where most ranks in the same roles launch the first before the second. Without any,
        whichever rank waits for it may show that order; then the rank that contradicts all the others is the one.
        """
        wrong: set[int] = set()
        against: list[set[int]] = []
        for waiter, rank, first, place in self._missed():
            for group, history in self._given.histories[rank].groups.items():
                if not history.unfinished:
                    continue
                second = group, min(history.unfinished)
                ordered = self._ordered(first, second) - {waiter, rank}
                against_order = self._ordered(second, first) - {waiter, rank}
                if len(ordered) > len(against_order):
                    wrong.add(rank)
                its = self._given.by_group[group].get(waiter)
                if not ordered and not against_order and its is not None and its.places.get(second[1], -1) > place:
                    against.append({waiter, rank})
        if wrong or not against:
            return tuple(wrong) if len(wrong) == 1 else ()
        return tuple(sorted(set.intersection(*against)))

    def _missed(self) -> Iterator[tuple[int, int, _Point, int]]:
        """A rank that waits, one that has not launched that, which collective, and where the waiter launched it."""
        for group, progress in self._given.progress.items():
            absent = {seq: progress.not_launched(seq) for seq in {one.seq for one in progress.waiting.values()}}
            for waiter, operation in progress.waiting.items():
                place = self._given.by_group[group][waiter].places[operation.seq]
                for rank in absent[operation.seq]:
                    yield waiter, rank, (group, operation.seq), place

    def _ordered(self, first: _Point, second: _Point) -> frozenset[int]:
        """Ranks that launched the first before the second, each in whatever group of that role they are in."""
        if (first, second) not in self._orders:
            ones = {rank: own.places.get(first[1]) for _, rank, own in self._of_role[_role(first[0])]}
            others = {rank: own.places.get(second[1]) for _, rank, own in self._of_role[_role(second[0])]}
            self._orders[first, second] = frozenset(
                rank for rank, place in ones.items()
                if place is not None and (other := others.get(rank)) is not None and place < other
            )  # fmt: skip
        return self._orders[first, second]


def _alike(own: Sequence[Collective], theirs: Sequence[Collective]) -> bool:
    """Whether two ranks launched the same, as far back as both dumps go: pipeline stages are told by their peers."""
    length = min(len(own), len(theirs))
    return all(
        (a.op, a.group_description, a.own, a.peer, a.input_sizes)
        == (b.op, b.group_description, b.own, b.peer, b.input_sizes)
        for a, b in zip(own[len(own) - length :], theirs[len(theirs) - length :], strict=True)
    )


def _role(group: Group) -> tuple[str, int]:
    return group.description or group.name, len(group.ranks)
