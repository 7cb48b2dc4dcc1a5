"""NCCL's COLL lines over ranks: which ranks launched fewer collectives on a communicator, or another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.collectives.vote import Vote, vote
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.job import Job

Difference = Literal["behind", "op", "size"]


@dataclass(frozen=True, slots=True)
class OddCommunicator:
    """A communicator whose ranks are not at the same collective."""

    comm: str
    what: Difference
    counted: Vote[str]
    numbers: Mapping[int, int]
    """Position of each rank in the communicator's order of collectives."""
    latest: Mapping[int, CommProgress]
    """By rank within the communicator."""

    @property
    def accused(self) -> tuple[int, ...]:
        """Ranks within the communicator that are behind, or whose operation or size is the odd one."""
        if self.what != "behind":
            return self.counted.odd_ranks
        top = max(self.numbers.values())
        return tuple(sorted(rank for rank, number in self.numbers.items() if number < top))


def odd_communicators(progress: Iterable[CommProgress]) -> tuple[OddCommunicator, ...]:
    """Compare the last collective of every rank, per communicator.

    opCount is the order where it moves; from NCCL 2.27.3 on it may stand at 0 for ever, then the lines themselves are
    counted. A rank counts as behind only where all the others are at one and the same collective, as they are when
    they wait for it; a spread of positions is what a job in motion looks like. The root of a broadcast that is alone
    ahead, and ranks at several places in a chain of broadcasts, wait for nobody.
    """
    by_comm: dict[str, dict[int, CommProgress]] = defaultdict(dict)
    for one in sorted(progress, key=lambda item: (item.comm, item.rank, item.launched, item.op_count, item.source)):
        by_comm[one.comm][one.rank] = one
    found = []
    for comm, latest in sorted(by_comm.items()):
        moves = any(one.op_count for one in latest.values())
        numbers = {rank: one.op_count if moves else one.launched for rank, one in latest.items()}
        difference = _compare(latest, numbers) if len(latest) > 1 else None
        if difference is not None:
            found.append(OddCommunicator(comm, *difference, numbers, latest))
    return tuple(found)


def _compare(latest: Mapping[int, CommProgress], numbers: Mapping[int, int]) -> tuple[Difference, Vote[str]] | None:
    ahead = [rank for rank, number in numbers.items() if number == max(numbers.values())]
    ops = vote({rank: one.op for rank, one in latest.items()})
    sizes = vote({rank: f"{one.elements} {one.dtype}" for rank, one in latest.items()})
    if len(ahead) < len(numbers):
        theirs = {latest[rank].op for rank in ahead}
        on_its_way = theirs == {"Broadcast"} and (len(ahead) == 1 or len(set(numbers.values())) > 2)
        places = vote({rank: f"{latest[rank].op} #{number}" for rank, number in numbers.items()})
        waited = len(ahead) * 2 >= len(numbers) and len(theirs) == 1 and not on_its_way
        return ("behind", places) if waited and places is not None else None
    if ops is not None and ops.odd:
        return "op", ops
    return ("size", sizes) if sizes is not None and sizes.odd else None


def edges_by_nccl_log(job: Job) -> tuple[WaitEdge, ...]:
    """Ranks that launched more collectives on a communicator than others, by the last COLL line of each.

    Not certain: lines may be late, and a job in motion looks the same for a moment.
    """
    found: list[WaitEdge] = []
    for odd in odd_communicators(job.progress):
        resolver = job.once(CommRankResolver)
        if odd.what != "behind" or not resolver.is_ours(odd.latest.values()):
            continue
        known = {place: rank for place, one in odd.latest.items() if (rank := resolver.of_progress(one)) is not None}
        fewer = tuple(sorted({known[place] for place in odd.accused if place in known}))
        for place, one in sorted(odd.latest.items()) if fewer else ():
            if place in known and place not in odd.accused:
                source, number = f"{one.source}:{one.line}", odd.numbers[place]
                found.append(WaitEdge(known[place], fewer, odd.comm, one.op, number, source, False, since=one.at))
    return tuple(found)
