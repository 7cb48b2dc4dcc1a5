"""Sends and receives put together over ranks: which open operation has its counterpart, and which waits in vain.

The k-th send from A to B in a group meets the k-th receive at B from A. Sequence numbers do not tell k (they count all
of a rank's batches), so both sides are counted from a point that they share: the beginning, or a collective that both
launched and that both dumps still hold. Counts that cannot be (more received than was sent) mean that the point was
none; then only open operations are compared, and of a batch with several peers nothing is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, TypeAlias

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import LaunchHistory, P2POp

Answer = Literal["launched", "absent", "no dump"]
_Way: TypeAlias = "tuple[Group, int, int]"
"""Group, sender, receiver."""


@dataclass(frozen=True, slots=True)
class P2PMatch:
    """What is known of the counterpart of an open send or receive."""

    op: P2POp
    answer: Answer
    other: P2POp | None
    """The counterpart, where it was launched."""
    certain: bool
    first: bool = True
    """``op`` belongs to what its rank has open first in the group."""


def match_p2p(histories: Mapping[int, LaunchHistory]) -> list[P2PMatch]:
    """Look for the counterpart of each send and receive that is open."""
    by_way = _ByWay(histories)
    found = []
    for history in histories.values():
        waited: dict[Group, int] = {}
        for op in history.p2p:
            matched = by_way.match(op) if op.condition == "open" else None
            if matched is not None:
                found.append(replace(matched, first=waited.setdefault(op.group, op.step) == op.step))
    return found


def passed_before(histories: Mapping[int, LaunchHistory], circle: Collection[int], matches: Iterable[P2PMatch]) -> bool:
    """Whether ranks that seem to wait in a circle went through the same circle the time before.

    Each of them then launched what it waited for before what it owed, and all came through: a rank posts early and goes
    on, and is late now for another reason than the circle.
    """
    first = {one.op.rank: one.op for one in matches if one.first and one.certain and one.answer == "absent"}
    owing = {op.peer: op for op in first.values() if op.peer in circle}
    for rank in circle:
        waits, owed = first.get(rank), owing.get(rank)
        if waits is None or owed is None:
            return False
        own = histories[rank].p2p
        same = [op.step for op in own if (op.peer, op.sends) == (waits.peer, waits.sends) and op.place < waits.place]
        paid = [op.step for op in own if (op.peer, op.sends) == (owed.rank, not owed.sends)]
        if not same or not paid or same[-1] >= paid[-1]:
            return False
    return True


class _ByWay:
    """All operations by group, sender and receiver."""

    def __init__(self, histories: Mapping[int, LaunchHistory]) -> None:
        self._histories = histories
        self._sides: dict[tuple[_Way, bool], list[P2POp]] = defaultdict(list)
        """By way, and whether they send."""
        self._peers: dict[tuple[int, int], set[int | None]] = defaultdict(set)
        for history in histories.values():
            for op in history.p2p:
                self._peers[op.rank, op.step].add(op.peer)
                if op.peer is not None:
                    self._sides[_way(op, op.peer), op.sends].append(op)

    def match(self, op: P2POp) -> P2PMatch | None:
        """The counterpart; None where the peer is not known."""
        if op.peer is None:
            return None
        if op.peer not in self._histories:
            return P2PMatch(op, "no dump", None, certain=False)
        way = _way(op, op.peer)
        own, theirs = self._sides[way, op.sends], self._sides.get((way, not op.sends), [])
        start = self._start(op.rank, op.peer)
        if start is not None:
            mine = [one for one in own if one.place > start[0]]
            others = [one for one in theirs if one.place > start[1]]
            if _fit(mine, others) and op in mine:
                return _at(op, mine.index(op), others, certain=True)
        mine, others = ([one for one in side if one.condition == "open"] for side in (own, theirs))
        # in a batch with several peers the counterpart may have come and gone; so it may where conditions are unknown
        alone = len(self._peers[op.rank, op.step]) == 1 and all(one.condition != "unknown" for one in theirs)
        listed = all(_lists_all_open(self._histories[rank], op.group) for rank in (op.rank, op.peer))
        return _at(op, mine.index(op), others, certain=alone and listed)

    def _start(self, rank: int, peer: int) -> tuple[int, int] | None:
        """Places on both ranks from which on their operations may be counted."""
        mine, theirs = self._histories[rank], self._histories[peer]
        if mine.whole and theirs.whole:
            return -1, -1
        if mine.partial or theirs.partial:
            return None
        shared = [
            (own.places[seq], theirs.groups[group].places[seq])
            for group, own in mine.groups.items()
            if group in theirs.groups
            for seq in own.places.keys() & theirs.groups[group].places.keys()
        ]
        return min(shared, default=None)


def _lists_all_open(history: LaunchHistory, group: Group) -> bool:
    """False where a full recorder may have dropped sends and receives of a group that are open still.

    They end in the order in which they were launched: what came before one that is done is done, too. Those of a group
    are numbered from 1 on.
    """
    first = next((op for op in history.p2p if op.group == group), None)
    return history.whole or first is None or first.condition == "done" or first.entry.seq in (0, 1)


def _way(op: P2POp, peer: int) -> _Way:
    return (op.group, op.rank, peer) if op.sends else (op.group, peer, op.rank)


def _at(op: P2POp, index: int, others: Sequence[P2POp], *, certain: bool) -> P2PMatch:
    other = others[index] if index < len(others) else None
    return P2PMatch(op, "absent" if other is None else "launched", other, certain)


def _fit(mine: Sequence[P2POp], others: Sequence[P2POp]) -> bool:
    """True where both may have begun to count at one point: nothing arrived that was not sent, and sizes agree."""
    for one, other in ((mine, others), (others, mine)):
        if sum(op.condition == "done" for op in one) > len(other):
            return False
    return all(
        _elements(a) == _elements(b) or None in (_elements(a), _elements(b))
        for a, b in zip(mine, others, strict=False)
        if a.condition == b.condition == "done"
    )


def _elements(op: P2POp) -> int | None:
    sizes = op.entry.input_sizes if op.sends else op.entry.output_sizes
    return sum(prod(size) for size in sizes) if sizes else None
