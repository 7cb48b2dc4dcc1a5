"""The order in which ranks launch their operations: others in the same role tell which of two sides left it.

Groups of one description and size play one role: their ranks launch the same collectives in the same order. When the
two ranks of a pair are at different operations, or two ranks wait for each other in different groups, the pair itself
cannot tell which is wrong; what the other pairs did at that point can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from collectors.samples.collectives import Collective
from hangtop.diagnosis.collectives.edges import Recorded
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import GroupHistory

AGREED = 0.75
"""Share of those in the same role that must agree before their order is the order."""
WINDOW = 200
"""Operations before a point over which histories are compared."""
_Point: TypeAlias = "tuple[Group, int]"
_Role: TypeAlias = "tuple[str, int]"


class LaunchOrder:
    """What every rank launched in each role that it plays."""

    def __init__(self, given: Recorded) -> None:
        self._given = given
        self._of_role: dict[_Role, list[tuple[Group, int, GroupHistory]]] = defaultdict(list)
        self._of_rank: dict[int, dict[_Role, GroupHistory]] = defaultdict(dict)
        self._votes: dict[tuple[_Point, _Point], Mapping[int, bool]] = {}
        for group, own in given.by_group.items():
            for rank, history in own.items():
                self._of_role[_role(group)].append((group, rank, history))
                self._of_rank[rank][_role(group)] = history

    def right_one(
        self, group: Group, seq: int, values: Mapping[int, str], read: Callable[[Collective], str]
    ) -> str | None:
        """Which value at a number is right, of those that the ranks of a group have there; None where nothing tells.

        Asked are ranks of other groups in the same role whose history up to there was the same as that of a rank here.
        """
        confirmed: set[str] = set()
        for other, other_rank, history in self._of_role[_role(group)]:
            if other == group or seq not in history.entries:
                continue
            seen = read(history.entries[seq])
            theirs = self._before(other_rank, history.places[seq])
            for rank, value in values.items():
                own = self._before(rank, self._given.by_group[group][rank].places[seq])
                if value == seen and _alike(own, theirs):
                    confirmed.add(value)
        return next(iter(confirmed)) if len(confirmed) == 1 else None

    def _before(self, rank: int, place: int) -> Sequence[Collective]:
        return self._given.dumps[rank].collectives[max(0, place - WINDOW) : place]

    def strayed(self) -> tuple[int, ...]:
        """Ranks that left the order of operations; both sides of one contradiction where nothing tells which.

        A rank that others wait for in one operation, and that waits in a collective itself, launched the second without
        the first. It is wrong where those in the same roles launch the first before the second. Without any, whichever
        rank waits for it may show that order; then the rank that contradicts all the others is the one.
        """
        wrong: set[int] = set()
        against: list[set[int]] = []
        for waiter, rank, place, first in self._missed():
            for group, history in self._given.histories[rank].groups.items():
                if not history.unfinished:
                    continue
                second = group, min(history.unfinished)
                order = None if first is None else self._order(first, second, {waiter, rank})
                if order is True:
                    wrong.add(rank)
                waiters = self._given.by_group[group].get(waiter)
                if order is None and waiters is not None and waiters.places.get(second[1], -1) > place:
                    against.append({waiter, rank})
        if wrong or not against:
            return tuple(sorted(wrong)) if len(wrong) == 1 else ()
        return tuple(sorted(set.intersection(*against)))

    def _missed(self) -> Iterator[tuple[int, int, int, _Point | None]]:
        """A rank that waits, one that has not launched that, where the waiter launched it, and which collective."""
        for group, own in self._given.by_group.items():
            for waiter, history in own.items():
                seq = min(history.unfinished, default=None)
                for rank in () if seq is None else self._given.missing(group, seq).absent:
                    assert seq is not None
                    yield waiter, rank, history.places[seq], (group, seq)
        for one in self._given.p2p:
            if one.answer == "absent" and one.certain and one.op.peer is not None:
                yield one.op.rank, one.op.peer, one.op.place, None

    def _order(self, first: _Point, second: _Point, besides: Collection[int]) -> bool | None:
        """Whether other ranks launch the one before the other; None where none launched both, or they do not agree."""
        if (first, second) not in self._votes:
            votes = {}
            for rank, own in self._of_rank.items():
                one, other = own.get(_role(first[0])), own.get(_role(second[0]))
                if one and other and first[1] in one.places and second[1] in other.places:
                    votes[rank] = one.places[first[1]] < other.places[second[1]]
            self._votes[first, second] = votes
        asked = [vote for rank, vote in self._votes[first, second].items() if rank not in besides]
        share = sum(asked) / len(asked) if asked else 0.5
        return True if share >= AGREED else False if share <= 1 - AGREED else None


def _alike(own: Sequence[Collective], theirs: Sequence[Collective]) -> bool:
    """Whether two ranks launched the same, as far back as both dumps go: pipeline stages are told by their peers."""
    length = min(len(own), len(theirs))
    return all(
        (a.op, a.group_description, a.own, a.peer, a.input_sizes)
        == (b.op, b.group_description, b.own, b.peer, b.input_sizes)
        for a, b in zip(own[len(own) - length :], theirs[len(theirs) - length :], strict=True)
    )


def _role(group: Group) -> _Role:
    return group.description or group.name, len(group.ranks)
