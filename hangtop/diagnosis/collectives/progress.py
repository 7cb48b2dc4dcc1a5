"""What each rank has launched in one communicator, and which rank waits for which by that.

Flight recorder dumps, watchdogs' time-outs, NCCL RAS and NCCL's COLL lines all become this one record, of which one
function makes the waits: a rank waits in number N for every member that has not launched number N. Example: ranks 0 and
1 have launched ``all_reduce`` #7 and rank 2 has launched #6 last; then ranks 0 and 1 wait for rank 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

SAME_INPUT = frozenset(
    {
        "allreduce", "broadcast", "reduce", "reducescatter", "reducescatterbase", "reducescattertensor",
        "allgather", "allgatherbase", "allgatherintotensor",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""


class Operation(NamedTuple):
    """A collective as one rank launched it; ``size`` and ``dtype`` are empty where the source does not tell them."""

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
    """One rank's operation cannot end before others do something. Ranks are global, ``for_ranks`` sorted.

    An edge speaks of the operation, not of the host: a rank whose receive waits may have posted it early and be busy
    with something else, which its stack tells.
    """

    waiter: int
    for_ranks: tuple[int, ...]
    group: str
    """Name of the group, as a reader knows it; the communicator for RAS and NCCL's log."""
    operation: str
    """Name of the collective; ``send`` and ``recv`` for operations of two ranks."""
    seq: int | None
    certain: bool
    """False where it only may be so: counts that are not sure, or the source tells nothing of the others."""
    since: float | None = None
    untold: bool = False
    """The source tells nothing of the others."""

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
    """The last collective that a rank has launched; of members that are not listed the source tells nothing."""
    waiting: Mapping[int, Operation]
    """The first collective that a rank has launched and not finished."""
    certain: bool = True

    def not_launched(self, seq: int) -> tuple[int, ...]:
        """Members that have not launched this number."""
        return tuple(sorted(rank for rank in self.members & self.last.keys() if self.last[rank].seq < seq))

    @property
    def behind(self) -> tuple[int, ...]:
        """Members that have not launched the highest number in which others wait."""
        return self.not_launched(max((one.seq for one in self.waiting.values()), default=-1))

    @property
    def untold(self) -> tuple[int, ...]:
        """Members of which the source tells nothing."""
        return tuple(sorted(self.members - self.last.keys()))

    @property
    def trickles(self) -> bool:
        """True in a chain of broadcasts: the root runs ahead and data trickles down, so ranks stand at many places."""
        broadcast = any("broadcast" in one.name.lower() for one in self.waiting.values())
        return broadcast and len({one.seq for one in self.last.values()}) > 2

    def edges(self) -> Iterator[WaitEdge]:
        """The waits: thousands of ranks that wait in one number share the tuple of ranks for which they wait."""
        late = {seq: self.not_launched(seq) for seq in {one.seq for one in self.waiting.values()}}
        untold, certain = self.untold, self.certain and not self.trickles
        for rank, one in sorted(self.waiting.items()):
            behind = late[one.seq]
            if behind or untold:
                sure = certain and bool(behind)
                yield WaitEdge(rank, behind or untold, self.label, one.name, one.seq, sure, one.since, not behind)


def leading(records: Sequence[LaunchProgress]) -> list[LaunchProgress]:
    """Records at which waits end: of those with ranks behind, where these do not all wait in another communicator.

    One rank that launched an operation which the others lack has itself left out theirs: where few are behind counts.
    """
    every = [one for one in records if one.behind]
    late = [one for one in every if 2 * len(one.behind) <= len(one.last)] or every
    free = []
    for one in late:
        elsewhere = {rank for other in every if other is not one for rank in other.waiting}
        if not set(one.behind) <= elsewhere:
            free.append(one)
    return free or late


# --- operations that differ at one number ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vote:
    """What most ranks have, and which ranks have something else. ``tied``: no value has a majority over the next."""

    usual: str
    usual_ranks: tuple[int, ...]
    odd: Mapping[int, str]
    tied: bool

    @property
    def odd_ranks(self) -> tuple[int, ...]:
        """Ranks that differ; all ranks where the vote is tied."""
        return tuple(sorted({*self.odd, *self.usual_ranks})) if self.tied else tuple(sorted(self.odd))


def vote(values: Mapping[int, str]) -> Vote | None:
    """Count the values of all ranks; None without two ranks that differ."""
    groups: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(values):
        groups[values[rank]].append(rank)
    if len(groups) < 2:
        return None
    (usual, members), *others = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    odd = {rank: value for value, ranks in others for rank in ranks}
    return Vote(usual, tuple(members), odd, tied=len(others[0][1]) == len(members))


class Mismatch(NamedTuple):
    """How ranks differ in one collective."""

    what: Literal["name", "dtype", "size"]
    counted: Vote


def mismatch(launched: Mapping[int, Operation]) -> Mismatch | None:
    """How ranks differ that launched these at one number of a communicator; what is not told compares with nothing."""
    names = {one.name for one in launched.values()}
    same_size = {name.lower().replace("_", "") for name in names} <= SAME_INPUT
    for what in ("name", "dtype", "size") if same_size else ("name", "dtype"):
        told = {rank: value for rank, one in launched.items() if (value := getattr(one, what))}
        counted = vote(told)
        if counted is not None:
            return Mismatch(what, counted)
    return None
