"""Sends and receives put together over ranks: which open operation has its counterpart, and which waits in vain.

The k-th send from A to B in a group meets the k-th receive at B from A. Sequence numbers do not tell k (they count all
of a rank's batches), so both sides are counted from the beginning. Where a dump does not go back so far, only open
operations are compared, and of a batch with several peers nothing is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import LaunchHistory, P2POp
from hangtop.diagnosis.collectives.progress import WaitEdge

_Way: TypeAlias = "tuple[Group, int, int, bool]"
"""Group, sender, receiver, and whether the operation is the send."""


def p2p_edges(histories: Mapping[int, LaunchHistory]) -> Iterator[WaitEdge]:
    """The waits of open sends and receives, of what each rank has open first in a group, that lack a counterpart."""
    by_way: dict[_Way, list[P2POp]] = defaultdict(list)
    peers: dict[tuple[int, int], set[int | None]] = defaultdict(set)
    for history in histories.values():
        for op in history.p2p:
            peers[op.rank, op.step].add(op.peer)
            if op.peer is not None:
                by_way[_way(op, op.peer)].append(op)
    for history in histories.values():
        first: dict[Group, int] = {}
        for op in history.p2p:
            if op.condition != "open" or op.peer is None or first.setdefault(op.group, op.step) != op.step:
                continue
            launched, certain = _launched(op, op.peer, histories, by_way, alone=len(peers[op.rank, op.step]) == 1)
            if not launched:
                yield WaitEdge(
                    op.rank, (op.peer,), op.group.label, "send" if op.sends else "recv", op.entry.seq,
                    certain, op.entry.created, op.peer not in histories,
                )  # fmt: skip


def _launched(
    op: P2POp, peer: int, histories: Mapping[int, LaunchHistory], by_way: Mapping[_Way, Sequence[P2POp]], *, alone: bool
) -> tuple[bool, bool]:
    """Whether the counterpart of an operation was launched, and whether that is certain."""
    if peer not in histories:
        return False, False
    mine: Sequence[P2POp] = by_way[_way(op, peer)]
    group, sender, receiver, sends = _way(op, peer)
    others = by_way.get((group, sender, receiver, not sends), ())
    whole = histories[op.rank].whole and histories[peer].whole
    # in a batch with several peers the counterpart may have come and gone; so it may where conditions are unknown
    certain = whole or (alone and all(one.condition != "unknown" for one in others))
    if not whole:
        mine, others = ([one for one in side if one.condition == "open"] for side in (mine, others))
    return mine.index(op) < len(others), certain


def _way(op: P2POp, peer: int) -> _Way:
    return (op.group, op.rank, peer, True) if op.sends else (op.group, peer, op.rank, False)
