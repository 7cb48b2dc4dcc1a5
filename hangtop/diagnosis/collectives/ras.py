"""NCCL RAS answers over time: communicators whose counts stand still and disagree, ranks that RAS cannot find.

Counts that differ mean nothing while they move: NCCL's manual says so, and every pipeline shows it. There are no
counters for Send and Recv, so an even picture never means "healthy".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.collectives.vote import Vote, vote
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
    def least(self) -> tuple[int, ...]:
        """Ranks within the communicator with the lowest count."""
        counts = {**dict.fromkeys(self.counted.usual_ranks, self.counted.usual), **self.counted.odd}
        low = min(counts.values())
        return tuple(sorted(rank for rank, number in counts.items() if number == low))


@dataclass(frozen=True, slots=True)
class Away:
    """Ranks that RAS reports missing, unresponsive or dead, in every one of the last answers."""

    comm: str
    members: tuple[RasRank, ...]
    at: float


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
        for op in sorted({op for rank in members.values() for op in rank.counts}):
            counted = vote({number: rank.counts.get(op, 0) for number, rank in members.items()})
            if counted is not None and counted.odd:
                found.append(Behind(comm, op, counted, members, last[-1].at))
    return tuple(found)


def away(reports: Sequence[Look[RasReport]]) -> tuple[Away, ...]:
    """Find ranks that every one of the last answers (two at the least) could not find."""
    last = sorted(reports, key=lambda look: look.at)[-POLLS:]
    if len(last) < 2:
        return ()
    found = []
    for comm, states in sorted(_histories(last).items()):
        lost = [{rank.rank for rank in state.ranks if rank.state in AWAY} for state in states]
        steady = set.intersection(*lost) if len(states) == len(last) else set()
        if steady:
            members = tuple(rank for rank in states[-1].ranks if rank.rank in steady)
            found.append(Away(comm, tuple(sorted(members, key=lambda rank: rank.rank)), last[-1].at))
    return tuple(found)


def _histories(last: Sequence[Look[RasReport]]) -> dict[str, list[RasCommunicator]]:
    histories: dict[str, list[RasCommunicator]] = {}
    for look in last:
        for communicator in look.value.communicators:
            histories.setdefault(communicator.comm, []).append(communicator)
    return histories


def _fingerprint(state: RasCommunicator) -> tuple[object, ...]:
    return tuple(sorted((rank.rank, rank.state, tuple(sorted(rank.counts.items()))) for rank in state.ranks))
