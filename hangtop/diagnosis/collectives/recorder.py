"""Flight recorder dumps of many ranks put side by side: which ranks did not join, or joined something else.

Works on any number of dumps: a rank without one is named as such, never an error. Which rank waits for which comes from
:mod:`~hangtop.diagnosis.collectives.edges`; here it is followed to its ends, and told per collective.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.collectives.edges import Recorded, edges_by_recorders, recorded
from hangtop.diagnosis.collectives.ends import ends_of, outvoted
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import closes, ends_together
from hangtop.diagnosis.collectives.order import LaunchOrder
from hangtop.diagnosis.collectives.p2p import passed_before
from hangtop.diagnosis.collectives.vote import Vote, vote
from hangtop.diagnosis.collectives.wait_edge import WaitEdge

SAME_INPUT = frozenset(
    {
        "all_reduce", "allreduce", "broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base", "all_gather",
        "_all_gather_base", "all_gather_into_tensor", "reduce_scatter_tensor", "_allgather_base",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""
WITHOUT_SIZE = frozenset({"barrier"})
What = Literal["op", "dtype", "size"]


@dataclass(frozen=True, slots=True)
class Differs:
    """Ranks that joined one collective with different operations, sizes or types.

    ``accused`` are the odd ones; where the votes are even, all of them, unless other groups tell which side is right.
    """

    group: Group
    seq: int
    what: What
    counted: Vote[str]
    op: str
    accused: tuple[int, ...]
    created: float

    @property
    def tied(self) -> bool:
        """Nothing tells which side is wrong."""
        return self.counted.tied and set(self.accused) == set(self.counted.odd_ranks)


class Stalled(NamedTuple):
    """A collective that all members of a group have launched and none has completed."""

    group: Group
    seq: int
    op: str
    ranks: tuple[int, ...]
    age: float | None
    """Seconds that the oldest wait had lasted when the last dump was written."""


class Unfinished(NamedTuple):
    """The first operation that one rank has open although other members of the group have completed it.

    All have joined an all_reduce that one member has completed: the GPU of a member that has it open stands still.
    """

    rank: int
    group: Group
    seq: int
    op: str
    completed: tuple[int, ...]
    """The members that have completed it."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What the dumps say together. ``culprits`` are the ends of all waits, or those that strayed in a circle."""

    given: Recorded
    edges: tuple[WaitEdge, ...]
    differs: tuple[Differs, ...]
    """The first of every group, the earliest first."""
    stalled: tuple[Stalled, ...]
    circle: tuple[int, ...]
    """Ranks that wait for one another in sends and receives whose counterparts are all known."""
    culprits: tuple[int, ...]
    torn: bool
    """The culprits are two that contradict each other, and one of them is right."""
    undumped: tuple[int, ...]
    """Ranks without a dump that the others wait for, where no other is to blame."""
    unfinished: tuple[Unfinished, ...]
    """Where a rank has open what its peers have completed, one a rank."""

    @property
    def dumped(self) -> tuple[int, ...]:
        """Ranks of which there is a dump."""
        return tuple(sorted(self.given.dumps))

    @property
    def timed(self) -> bool:
        """Whether any recorder tells that a GPU has begun an operation: else all that is open was only scheduled."""
        dumps = self.given.dumps.values()
        return any(entry.state == "started" for dump in dumps for entry in dump.collectives)


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number, and follow the waits to their ends.

    Two culprits of a circle over several groups are two sides of which nothing tells the wrong one (``torn``).
    """
    given = recorded(dumps)
    order = LaunchOrder(given)
    edges = edges_by_recorders(given)
    groups = sorted(given.by_group, key=lambda group: group.order)
    differs = [found for group in groups if (found := _differs(given, group, order))]
    busy = {rank for own in given.by_group.values() for rank, history in own.items() if history.unfinished}
    busy |= {one.op.rank for one in given.p2p}
    ends = ends_of(edges, busy, given.dumps.keys())
    unfinished = () if ends.ranks else tuple(_unfinished(given))
    culprits = ends.ranks or tuple(one.rank for one in unfinished) or order.strayed() or outvoted(edges)
    in_pairs = {edge.waiter for edge in edges if edge.certain and edge.p2p}
    in_groups = {edge.waiter for edge in edges if edge.certain} - in_pairs
    circle = () if culprits or in_groups & set(ends.circle) else ends.circle
    return Matched(
        given=given,
        edges=edges,
        differs=tuple(sorted(differs, key=lambda found: (found.created, found.group.order))),
        stalled=tuple(_stalled(given, {edge.waiter for edge in edges}, {found.group for found in differs})),
        circle=() if passed_before(given.histories, circle, given.p2p) else circle,
        culprits=culprits,
        torn=not ends.ranks and not unfinished and len(culprits) > 1,
        undumped=ends.undumped,
        unfinished=unfinished,
    )  # fmt: skip


def _unfinished(given: Recorded) -> Iterator[Unfinished]:
    """Ranks whose GPU has not finished what all others of a group have, in the order of their numbers."""
    for rank, history in sorted(given.histories.items()):
        for group, own in history.groups.items():
            first = min(own.unfinished, default=None)
            if first is None or not ends_together(own.entries[first]):
                continue
            others = given.by_group[group].items()
            completed = sorted(other for other, its in others if other != rank and its.completed >= first)
            if completed:
                yield Unfinished(rank, group, first, own.entries[first].op, tuple(completed))
                break


def _stalled(given: Recorded, behind: Collection[int], differing: Collection[Group]) -> Iterator[Stalled]:
    """Groups all of whose members stand in one collective, none of them ``behind`` something else: that moved data."""
    for group in sorted(given.by_group.keys() - differing, key=lambda group: group.order):
        own = given.by_group[group]
        first_open = {rank: min(history.unfinished) for rank, history in own.items() if history.unfinished}
        seq = min(first_open.values(), default=-1)
        ranks = tuple(sorted(rank for rank, first in first_open.items() if first == seq))
        if not ranks or set(ranks) != given.members(group) or set(ranks) & set(behind):
            continue
        entries = [own[rank].entries[seq] for rank in ranks]
        began = min((entry.created for entry in entries if entry.created is not None), default=None)
        age = given.at - began if given.at is not None and began is not None else None
        yield Stalled(group, seq, entries[0].op, ranks, age)


def _differs(given: Recorded, group: Group, order: LaunchOrder) -> Differs | None:
    """Find the first unfinished collective that ranks of a group joined in different ways."""
    own = given.by_group[group]
    for seq in sorted({seq for history in own.values() for seq in history.unfinished}):
        entries = {rank: history.entries[seq] for rank, history in own.items() if seq in history.entries}
        for what in _comparable(entries):
            read = _READERS[what]
            values = {rank: read(entry) for rank, entry in entries.items()}
            counted = vote(values)
            if counted is None or not counted.odd:
                continue
            accused = counted.odd_ranks
            if counted.tied:
                right = order.right_one(group, seq, values, read)
                accused = tuple(rank for rank in accused if values[rank] != right)
            created = min((entry.created for entry in entries.values() if entry.created is not None), default=0.0)
            op = counted.usual if what == "op" else next(iter(entries.values())).op
            return Differs(group, seq, what, counted, op, accused, created)
    return None


def _comparable(entries: Mapping[int, Collective]) -> Sequence[What]:
    """What may be compared of these entries: of batches, closed on some ranks and not yet on others, nothing."""
    closed = [closes(entry) for entry in entries.values()]
    ops = {entry.op for entry in entries.values()}
    if any(closed) and not all(closed):
        return ()
    if len(ops) > 1:
        return ("op",)
    if ops & WITHOUT_SIZE or any(closed):
        return ()
    return ("dtype", "size") if ops <= SAME_INPUT else ("dtype",)


def odd_size(given: Recorded, one: Stalled) -> Vote[str] | None:
    """The one rank that gave an operation whose sizes may differ another size than all others, which gave it one."""
    if one.op in SAME_INPUT or one.op in WITHOUT_SIZE:
        return None
    own = given.by_group[one.group]
    counted = vote({rank: shape(own[rank].entries[one.seq].input_sizes) for rank in one.ranks})
    return counted if counted is not None and len(counted.odd) == 1 and not counted.tied else None


def shape(sizes: Sequence[Sequence[int]]) -> str:
    """``4096``, ``2×3, 5``; a tensor without dimensions is ``scalar``."""
    return ", ".join("×".join(map(str, size)) or "scalar" for size in sizes)


_READERS: dict[What, Callable[[Collective], str]] = {
    "op": lambda entry: entry.op,
    "dtype": lambda entry: ",".join(entry.input_dtypes),
    "size": lambda entry: shape(entry.input_sizes),
}
