"""Sends and receives put together over ranks: which open operation has its counterpart, and which waits in vain.

The k-th send from A to B in a group meets the k-th receive at B from A. Sequence numbers do not tell k (they count all
of a rank's batches), so both sides are counted from the beginning. Where a dump does not go back so far, only open
operations are compared, and of a batch with several peers nothing is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import LaunchHistory, P2POp

_Way: TypeAlias = "tuple[Group, int, int, bool]"
"""Group, sender, receiver, and whether the operation is the send."""


@dataclass(frozen=True, slots=True)
class P2PMatch:
    """What is known of the counterpart of an open send or receive."""

    op: P2POp
    peer: int
    answer: Literal["launched", "absent", "no dump"]
    certain: bool
    first: bool = True
    """``op`` belongs to what its rank has open first in the group."""


def match_p2p(histories: Mapping[int, LaunchHistory]) -> list[P2PMatch]:
    """Look for the counterpart of each send and receive that is open."""
    by_way: dict[_Way, list[P2POp]] = defaultdict(list)
    peers: dict[tuple[int, int], set[int | None]] = defaultdict(set)
    for history in histories.values():
        for op in history.p2p:
            peers[op.rank, op.step].add(op.peer)
            if op.peer is not None:
                by_way[_way(op, op.peer)].append(op)
    found = []
    for history in histories.values():
        waited: dict[Group, int] = {}
        for op in history.p2p:
            if op.condition == "open" and op.peer is not None:
                alone = len(peers[op.rank, op.step]) == 1
                matched = _match(op, op.peer, histories, by_way, alone=alone)
                found.append(replace(matched, first=waited.setdefault(op.group, op.step) == op.step))
    return found


def _match(
    op: P2POp, peer: int, histories: Mapping[int, LaunchHistory], by_way: Mapping[_Way, Sequence[P2POp]], *, alone: bool
) -> P2PMatch:
    if peer not in histories:
        return P2PMatch(op, peer, "no dump", certain=False)
    mine: Sequence[P2POp] = by_way[_way(op, peer)]
    group, sender, receiver, sends = _way(op, peer)
    others = by_way.get((group, sender, receiver, not sends), ())
    whole = histories[op.rank].whole and histories[peer].whole
    # in a batch with several peers the counterpart may have come and gone; so it may where conditions are unknown
    certain = whole or (alone and all(one.condition != "unknown" for one in others))
    if not whole:
        mine, others = ([one for one in side if one.condition == "open"] for side in (mine, others))
    return P2PMatch(op, peer, "launched" if mine.index(op) < len(others) else "absent", certain)


def _way(op: P2POp, peer: int) -> _Way:
    return (op.group, op.rank, peer, True) if op.sends else (op.group, peer, op.rank, False)
