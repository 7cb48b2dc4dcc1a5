"""Whom the frames of ranks say that they wait for: the other side of a send or a receive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hangtop.diagnosis.groups.edges import Waits
from hangtop.diagnosis.waits.rank_status import RankStatus


def peers_awaited(statuses: Iterable[RankStatus]) -> Mapping[int, int]:
    """Rank → the rank that its send or receive waits for; without those whose other side waits in the other half."""
    doing = {
        one.rank: one.activity for one in statuses if one.activity is not None and one.activity.kind == "p2p"
    }  # fmt: skip
    peers = {rank: own.peer for rank, own in doing.items() if own.peer is not None and own.peer != rank}
    return {
        rank: peer for rank, peer in peers.items() if not (peers.get(peer) == rank and doing[peer].op != doing[rank].op)
    }


def by_frames(statuses: Iterable[RankStatus]) -> Iterator[Waits]:
    """The same as edges: what gloo's recorder keeps nothing of, and what is known without any recorder."""
    waiting = {one.rank: one for one in statuses if one.state == "waiting"}
    for rank, peer in peers_awaited(waiting.values()).items():
        doing = waiting[rank].activity
        assert doing is not None, "who waits for a peer was looked at"
        yield Waits(rank, (peer,), "", doing.op, None, "stack", True)
