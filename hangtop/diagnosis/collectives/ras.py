"""NCCL RAS: communicators whose counts stand still and disagree, and ranks that RAS cannot find.

Counts that differ mean nothing while they move: NCCL's manual says so, and every pipeline shows it. There are no
counters for Send and Recv, and none move for collectives in CUDA graphs (2.26 and later): an even picture, RAS's "OK",
never means "healthy". The root of a broadcast launches ahead of the others, which is no mismatch either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.collectives.vote import vote
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.job import Job, Look

POLLS = 3
"""Answers over which counts must stand still (NCCL's manual asks for repeated queries)."""
AWAY = ("missing", "unresponsive", "dead")

# --- counts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Behind:
    """Ranks of one communicator that launched less than the others, by one operation's counter."""

    comm: str
    op: str
    counts: Mapping[int, int]
    """By rank within the communicator."""
    members: Mapping[int, RasRank]
    at: float

    @property
    def least(self) -> tuple[int, ...]:
        """Ranks within the communicator with the lowest count."""
        low = min(self.counts.values())
        return tuple(sorted(rank for rank, number in self.counts.items() if number == low))

    @property
    def ahead(self) -> frozenset[int]:
        """Ranks within the communicator that launched more than those."""
        return frozenset(self.counts) - frozenset(self.least)


def behind(reports: Sequence[Look[RasReport]]) -> tuple[Behind, ...]:
    """Find communicators whose counts stood still over the last polls and differ between ranks."""
    last = sorted(reports, key=lambda look: look.at)[-POLLS:]
    found = []
    for comm, states in sorted(_histories(last).items()):
        if len(states) < POLLS or len({_fingerprint(state) for state in states}) != 1:
            continue
        members = {rank.rank: rank for rank in states[-1].ranks if rank.counts}
        own = []
        for op in sorted({op for rank in members.values() for op in rank.counts}):
            counts = {number: rank.counts[op] for number, rank in members.items() if op in rank.counts}
            counted = vote(counts)
            if counted is not None and counted.odd and not _runs_ahead(op, counts):
                own.append(Behind(comm, op, counts, members, last[-1].at))
        found += _without_echoes(own)
    return tuple(found)


def _runs_ahead(op: str, counts: Mapping[int, int]) -> bool:
    """Whether it is the root of broadcasts that launched more, or a chain of them on its way."""
    values = list(counts.values())
    root = len(values) > 2 and values.count(max(values)) == 1
    return op == "Broadcast" and (root or len(set(values)) > 2)


def _without_echoes(own: Sequence[Behind]) -> list[Behind]:
    """Of a rank that launched one operation instead of another, the operation that it lacks: not the others' lack."""
    few = [one for one in own if len(one.least) * 2 < len(one.counts)]
    fewer = {rank for one in few for rank in one.least}
    return [one for one in own if one in few or not one.ahead <= fewer] or list(own)


def _histories(last: Sequence[Look[RasReport]]) -> dict[str, list[RasCommunicator]]:
    histories: dict[str, list[RasCommunicator]] = {}
    for look in last:
        for communicator in look.value.communicators:
            histories.setdefault(communicator.comm, []).append(communicator)
    return histories


def _fingerprint(state: RasCommunicator) -> tuple[object, ...]:
    return tuple(sorted((rank.rank, rank.state, tuple(sorted(rank.counts.items()))) for rank in state.ranks))


def behind_in_job(job: Job) -> tuple[Behind, ...]:
    """Communicators of this job whose counts stand still and differ, without those whose laggards wait elsewhere."""
    differing = behind(job.ras)
    if not differing:
        return ()
    resolver = job.once(CommRankResolver)
    found = [one for one in differing if resolver.is_ours(one.members.values())]
    ahead = {one.comm: set(resolver.of_members(one.members[rank] for rank in one.ahead)) for one in found}
    free = []
    for one in found:
        waiting = set().union(*(ranks for comm, ranks in ahead.items() if comm != one.comm))
        least = set(resolver.of_members(one.members[rank] for rank in one.least))
        if not least or not least <= waiting:
            free.append(one)
    return tuple(free or found)


def edges_by_ras(job: Job) -> tuple[WaitEdge, ...]:
    """Ranks that launched more of an operation than others of the communicator, over three answers without motion.

    RAS has no counter for Send and Recv: a rank without an edge may wait all the same.
    """
    found: list[WaitEdge] = []
    for one in behind(job.ras):
        resolver = job.once(CommRankResolver)
        if not resolver.is_ours(one.members.values()):
            continue
        for rank in sorted(one.ahead):
            number = one.counts[rank]
            fewer = resolver.of_members(one.members[other] for other, less in one.counts.items() if less < number)
            source = f"NCCL RAS, communicator {one.comm}"
            waiters = resolver.of_members([one.members[rank]]) if fewer else ()
            found += [WaitEdge(own, fewer, one.comm, one.op, number, source, certain=True) for own in waiters]
    return tuple(found)


# --- processes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Away:
    """Ranks that RAS reports missing, unresponsive or dead, in every one of the last answers."""

    comm: str
    members: tuple[RasRank, ...]
    at: float
    surely: bool
    """Whether more than one answer says so, or RAS itself has given a process up."""


def away(reports: Sequence[Look[RasReport]], least: int = 2) -> tuple[Away, ...]:
    """Find ranks that every one of the last answers (``least`` of them or more) could not find."""
    last = sorted(reports, key=lambda look: look.at)[-POLLS:]
    if len(last) < max(least, 1):
        return ()
    surely = len(last) > 1 or bool(last[-1].value.dead)
    found = []
    for comm, states in sorted(_histories(last).items()):
        lost = [{rank.rank for rank in state.ranks if rank.state in AWAY} for state in states]
        steady = set.intersection(*lost) if len(states) == len(last) else set()
        members = sorted((rank for rank in states[-1].ranks if rank.rank in steady), key=lambda rank: rank.rank)
        if members:
            found.append(Away(comm, tuple(members), last[-1].at, surely))
    return tuple(found)
