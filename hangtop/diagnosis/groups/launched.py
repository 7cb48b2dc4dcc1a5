"""NCCL's COLL lines over ranks: who launched fewer collectives on a communicator, or another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.groups.vote import Vote, vote


@dataclass(frozen=True, slots=True)
class Odd:
    """A communicator whose ranks are not at the same collective."""

    comm: str
    what: Literal["behind", "op", "size"]
    counted: Vote[str]
    numbers: dict[int, int]
    """Position of each rank in the communicator's order of collectives."""
    latest: dict[int, CommProgress]
    """By rank within the communicator."""

    @property
    def accused(self) -> tuple[int, ...]:
        """Ranks within the communicator that are behind, or whose operation or size is the odd one."""
        if self.what != "behind":
            return self.counted.odd_ranks
        top = max(self.numbers.values())
        return tuple(sorted(rank for rank, number in self.numbers.items() if number < top))


def odd_ones(progress: Iterable[CommProgress]) -> tuple[Odd, ...]:
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
        if len(latest) < 2:
            continue
        moves = any(one.op_count for one in latest.values())
        numbers = {rank: one.op_count if moves else one.launched for rank, one in latest.items()}
        what, counted = _compare(latest, numbers)
        if what is not None and counted is not None:
            found.append(Odd(comm, what, counted, numbers, latest))
    return tuple(found)


def _compare(
    latest: dict[int, CommProgress], numbers: dict[int, int]
) -> tuple[Literal["behind", "op", "size"] | None, Vote[str] | None]:
    top = max(numbers.values())
    ahead = [rank for rank, number in numbers.items() if number == top]
    if len(ahead) < len(numbers):
        if {latest[rank].op for rank in ahead} == {"Broadcast"} and (len(ahead) == 1 or len(set(numbers.values())) > 2):
            return None, None
        alike = len(ahead) * 2 >= len(numbers) and len({latest[rank].op for rank in ahead}) == 1
        places = vote({rank: f"{latest[rank].op} #{number}" for rank, number in numbers.items()})
        return ("behind", places) if alike else (None, None)
    ops = vote({rank: one.op for rank, one in latest.items()})
    if ops is not None and ops.odd:
        return "op", ops
    sizes = vote({rank: f"{one.elements} {one.dtype}" for rank, one in latest.items()})
    return ("size", sizes) if sizes is not None and sizes.odd else (None, None)
