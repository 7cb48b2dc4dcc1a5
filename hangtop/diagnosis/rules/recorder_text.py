"""How findings by flight recorder dumps put who is waited for, and odd sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from hangtop.diagnosis.evidence.events import lines, warned
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups.edges import Waits
from hangtop.diagnosis.groups.recorder import Matched, NotJoined
from hangtop.diagnosis.groups.vote import Vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text
from hangtop.diagnosis.roster import homes
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


def of_another_size(job: Job, stop: NotJoined, odd: Vote[str], dumps: Iterable[Evidence]) -> Finding:
    """collective_size_mismatch where sizes may differ: likely where NCCL also met a message of another size.

    ``odd`` names one rank. ``dumps`` says what each rank gave, of which the first few are kept.
    """
    (rank, size), *_ = odd.odd.items()
    truncated = warned(job, "truncated")
    return Finding(
        "collective_size_mismatch", "critical", 0.77 if truncated else 0.5,
        f"rank {rank} alone gave {stop.op} #{stop.seq} of group {stop.group.label} another size: {size}, the others "
        f"{odd.usual}; none completed it",
        ranks=(rank,), nodes=homes(job, (rank,)), evidence=(*islice(dumps, 4), *lines(truncated[:1])),
        advice="Each rank must send to each what that one expects of it: compare input_split_sizes and "
        "output_split_sizes.",
    )  # fmt: skip
