"""Where the waits of recorder dumps end, told by what the ranks' frames say of sends and receives beside them.

Gloo's recorder keeps collectives alone: a rank that waits in a receive of gloo's has nothing open in its dump, and
looks as if it had stayed away from the collectives that others wait for it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hangtop.diagnosis.groups.edges import Waits
from hangtop.diagnosis.groups.recorder import Matched
from hangtop.diagnosis.phrasing import listed, ranks_text
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.peers import peers_awaited

TOLD = 2
"""Other places at which culprits are waited for that are told beside the first."""


def ends_beyond(job_status: JobStatus, matched: Matched) -> tuple[int, ...]:
    """Culprits of the dumps, each followed along what its frames say that it waits for, as far as that leads.

    Whoever waits in a send or receive is none, with whom it may be, where somebody is left who does not.
    """
    between = {status.rank: status for status in job_status.of("waiting") if status.activity is not None}
    peers = peers_awaited(between.values())
    in_pairs = {rank for rank, status in between.items() if status.activity and status.activity.kind == "p2p"}
    ends = {_end(rank, peers) for rank in matched.culprits}
    waiting = in_pairs | {edge.waiter for edge in matched.edges if edge.certain}
    return tuple(sorted(ends - waiting or matched.culprits))


def other_places(direct: Iterable[Waits], told: Iterable[int], culprits: Iterable[int]) -> str:
    """``; and rank 3 not all_reduce #132 of group 5``, of culprits whom others wait for elsewhere than was told."""
    left = set(culprits) - set(told)
    places = []
    for edge in direct:
        if missed := left & set(edge.for_ranks):
            number = "" if edge.seq is None else f" #{edge.seq}"
            places.append(f"{ranks_text(missed)} not {edge.operation}{number} of group {edge.group}")
            left -= missed
    return f"; and {listed(places, TOLD)}" if places else ""


def _end(rank: int, peers: Mapping[int, int]) -> int:
    """Who ends the chain of peers that begins at a rank; the rank itself where that is a circle."""
    way = [rank]
    while (peer := peers.get(way[-1])) is not None:
        if peer in way:
            return rank
        way.append(peer)
    return way[-1]
