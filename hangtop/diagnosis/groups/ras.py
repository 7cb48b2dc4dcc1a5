"""NCCL RAS answers over time: communicators whose counts stand still and disagree, ranks that RAS cannot find.

Counts that differ mean nothing while they move: NCCL's manual says so, and every pipeline shows it. There are no
counters for Send and Recv, and none move for collectives in CUDA graphs (2.26 and later): an even picture never means
"healthy". The root of a broadcast launches ahead of the others, which is no mismatch either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.groups.vote import Vote, vote
from hangtop.diagnosis.job import Look

POLLS = 3
"""Answers over which counts must stand still (rule of evidence 3; NCCL's manual asks for repeated queries)."""
AWAY = ("missing", "unresponsive", "dead")


@dataclass(frozen=True, slots=True)
class Behind:
    """Ranks of one communicator that launched less than the others, by one operation's counter."""

    comm: str
    op: str
    counted: Vote[int]
    members: Mapping[int, RasRank]
    """By rank within the communicator."""
    at: float

    @property
    def counts(self) -> dict[int, int]:
        """The operation's counter by rank within the communicator."""
        return {**dict.fromkeys(self.counted.usual_ranks, self.counted.usual), **self.counted.odd}

    @property
    def least(self) -> tuple[int, ...]:
        """Ranks within the communicator with the lowest count."""
        low = min(self.counts.values())
        return tuple(sorted(rank for rank, number in self.counts.items() if number == low))

    @property
    def ahead(self) -> frozenset[int]:
        """Ranks within the communicator that launched more than those."""
        return frozenset(self.counts) - frozenset(self.least)

    @property
    def size(self) -> int:
        """Ranks that were counted."""
        return len(self.counts)


@dataclass(frozen=True, slots=True)
class Away:
    """Ranks that RAS reports missing, unresponsive or dead, in every one of the last answers."""

    comm: str
    members: tuple[RasRank, ...]
    at: float
    surely: bool = True
    """Whether more than one answer says so, or RAS itself has given a process up."""


def behind(reports: Sequence[Look[RasReport]]) -> tuple[Behind, ...]:
    """Find communicators whose counts stood still over the last polls and differ between ranks."""
    last = sorted(reports, key=lambda look: look.at)[-POLLS:]
    if len(last) < POLLS:
        return ()
    histories = _histories(last)
    found = []
    for comm, states in sorted(histories.items()):
        if len(states) < POLLS or len({_fingerprint(state) for state in states}) != 1:
            continue
        members = {rank.rank: rank for rank in states[-1].ranks if rank.counts}
        own = []
        for op in sorted({op for rank in members.values() for op in rank.counts}):
            counted = vote({number: rank.counts.get(op, 0) for number, rank in members.items() if op in rank.counts})
            if counted is not None and counted.odd and not _runs_ahead(op, counted):
                own.append(Behind(comm, op, counted, members, last[-1].at))
        found += _without_echoes(own)
    return tuple(found)


def _runs_ahead(op: str, counted: Vote[int]) -> bool:
    """Whether it is the root of broadcasts that launched more, or a chain of them on its way."""
    if op != "Broadcast":
        return False
    values = {**dict.fromkeys(counted.usual_ranks, counted.usual), **counted.odd}
    top = max(values.values())
    return len(set(values.values())) > 2 or (len(values) > 2 and sum(value == top for value in values.values()) == 1)


def _without_echoes(own: Sequence[Behind]) -> list[Behind]:
    """Of a rank that launched one operation instead of another, the operation that it lacks: not the others' lack."""
    fewer = {rank for one in own for rank in one.least if len(one.least) * 2 < one.size}
    kept = [one for one in own if not (one.ahead <= fewer and len(one.least) * 2 >= one.size)]
    return kept or list(own)


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
        if steady:
            members = tuple(rank for rank in states[-1].ranks if rank.rank in steady)
            found.append(Away(comm, tuple(sorted(members, key=lambda rank: rank.rank)), last[-1].at, surely))
    return tuple(found)


def _histories(last: Sequence[Look[RasReport]]) -> dict[str, list[RasCommunicator]]:
    histories: dict[str, list[RasCommunicator]] = {}
    for look in last:
        for communicator in look.value.communicators:
            histories.setdefault(communicator.comm, []).append(communicator)
    return histories


def _fingerprint(state: RasCommunicator) -> tuple[object, ...]:
    return tuple(sorted((rank.rank, rank.state, tuple(sorted(rank.counts.items()))) for rank in state.ranks))
