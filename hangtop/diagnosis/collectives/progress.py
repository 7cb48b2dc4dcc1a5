"""What each rank has launched in one communicator, and which rank waits for which by that.

Flight recorder dumps, watchdogs' time-outs, NCCL RAS and NCCL's COLL lines all become this one record, and one function
derives the waits from it: a rank waits in number N for every member that has not launched number N. Example: ranks 0
and 1 have launched ``all_reduce`` #7 and rank 2 has launched #6 last; then ranks 0 and 1 wait for rank 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

SAME_INPUT = frozenset(
    {
        "allreduce", "broadcast", "reduce", "reducescatter", "reducescatterbase", "reducescattertensor",
        "allgather", "allgatherbase", "allgatherintotensor",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""


class Operation(NamedTuple):
    """A collective as one rank launched it; ``size`` and ``dtype`` are empty if the source does not report them."""

    name: str
    """``all_reduce``, ``ALLREDUCE``, ``AllReduce``: as the source writes it."""
    seq: int
    source: str
    since: float | None = None
    """When the rank launched it, seconds since the epoch on its own clock."""
    dtype: str = ""
    size: str = ""


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """One rank's operation that cannot end before other ranks act. Ranks are global, ``for_ranks`` sorted.

    An edge is about the operation, not the host: a rank whose receive waits may have posted it early and be busy with
    something else, which its stack shows.
    """

    waiter: int
    for_ranks: tuple[int, ...]
    group: str
    """Name of the group for readers; the communicator for RAS and NCCL's log."""
    operation: str
    """Name of the collective; ``send`` and ``recv`` for operations of two ranks."""
    seq: int | None
    certain: bool
    """False if the wait is only possible: the counts are not sure, or the source does not cover the other ranks."""
    since: float | None = None
    uncovered: bool = False
    """The source does not cover the other ranks."""

    @property
    def p2p(self) -> bool:
        """True for a send or receive."""
        return self.operation in ("send", "recv")


@dataclass(frozen=True, slots=True)
class LaunchProgress:
    """What the members of one communicator have launched, by one source. All ranks are global."""

    label: str
    members: frozenset[int]
    last: Mapping[int, Operation]
    """The last collective that each rank has launched; the source does not cover members that are not listed."""
    waiting: Mapping[int, Operation]
    """The first collective that each rank has launched and not finished."""
    certain: bool = True
    completed: Mapping[int, int] = field(default_factory=dict)
    """Number of the last collective that each rank has finished, if the source reports it."""

    def not_launched(self, seq: int) -> tuple[int, ...]:
        """Members that have not launched this number."""
        return tuple(sorted(rank for rank in self.members & self.last.keys() if self.last[rank].seq < seq))

    @property
    def behind(self) -> tuple[int, ...]:
        """Members that have not launched the highest number in which others wait."""
        return self.not_launched(max((operation.seq for operation in self.waiting.values()), default=-1))

    @property
    def ahead(self) -> frozenset[int]:
        """The few ranks that have launched more than all others, if the others are at one number.

        If all ranks wait, these skipped the others' collective: rank 2 waits in #9 and the others in #8. The root of a
        broadcast may run ahead without a fault.
        """
        numbers = Counter(operation.seq for operation in self.last.values()).most_common(1)
        usual = numbers[0][0] if numbers else 0
        few = frozenset(rank for rank, operation in self.last.items() if operation.seq != usual)
        only_more = all(self.last[rank].seq > usual for rank in few)
        streams = any("broadcast" in operation.name.lower() for operation in self.last.values())
        return few if only_more and not streams and 2 * len(few) < len(self.last) else frozenset()

    @property
    def passed(self) -> dict[int, frozenset[int]]:
        """Ranks whose open collective other ranks have finished, with those others.

        All had joined the collective, so the GPUs of the former stand still.
        """
        numbers = {operation.seq for operation in self.waiting.values()}
        done = {seq: frozenset(rank for rank, last in self.completed.items() if last >= seq) for seq in numbers}
        return {rank: others for rank, op in self.waiting.items() if (others := done[op.seq] - {rank})}

    @property
    def uncovered(self) -> tuple[int, ...]:
        """Members that the source does not cover."""
        return tuple(sorted(self.members - self.last.keys()))

    @property
    def trickles(self) -> bool:
        """True in a chain of broadcasts: the root runs ahead and data trickles down, so ranks stand at many places."""
        broadcast = any("broadcast" in operation.name.lower() for operation in self.waiting.values())
        return broadcast and len({operation.seq for operation in self.last.values()}) > 2

    def edges(self) -> Iterator[WaitEdge]:
        """Yield the waits; thousands of ranks that wait in one number share one tuple of the ranks they wait for."""
        late = {seq: self.not_launched(seq) for seq in {operation.seq for operation in self.waiting.values()}}
        uncovered, certain = self.uncovered, self.certain and not self.trickles
        for rank, op in sorted(self.waiting.items()):
            behind = late[op.seq]
            if behind or uncovered:
                sure = certain and bool(behind)
                yield WaitEdge(rank, behind or uncovered, self.label, op.name, op.seq, sure, op.since, not behind)


def leading(records: Sequence[LaunchProgress]) -> list[LaunchProgress]:
    """Records with ranks behind that do not all wait in another communicator; all records with ranks behind if none."""
    late, free = [record for record in records if record.behind], []
    for record in late:
        elsewhere = {rank for other in late if other is not record for rank in other.waiting}
        if not set(record.behind) <= elsewhere:
            free.append(record)
    return free or late


# --- operations that differ at one number ------------------------------------------------------------------------


class Vote(NamedTuple):
    """Ranks whose value differs from the most common one, with their values; all ranks on a tie."""

    odd: Mapping[int, str]
    tied: bool


def vote(values: Mapping[int, str]) -> Vote | None:
    """Count the values of all ranks; None if all ranks agree."""
    counted = Counter(values.values()).most_common(2)
    if len(counted) < 2:
        return None
    (usual, most), (_, next_most) = counted
    tied = most == next_most
    return Vote({rank: value for rank, value in sorted(values.items()) if tied or value != usual}, tied)


def differing_field(launched: Mapping[int, Operation]) -> Literal["name", "dtype", "size"] | None:
    """The field in which operations at one number of a communicator differ among ranks; None if they agree.

    Types and sizes that a source does not report are not compared.
    """
    names = {operation.name for operation in launched.values()}
    if len(names) > 1:
        return "name"
    if len({operation.dtype for operation in launched.values() if operation.dtype}) > 1:
        return "dtype"
    sizes = {operation.size for operation in launched.values() if operation.size}
    same_size = {name.lower().replace("_", "") for name in names} <= SAME_INPUT
    return "size" if same_size and len(sizes) > 1 else None
