"""Flight recorder dumps of many ranks put side by side: which ranks did not join, or joined something else.

Works on any number of dumps: a rank without one is named as such, never an error. Which rank waits for which comes from
:mod:`~hangtop.diagnosis.collectives.edges`; here it is followed to its ends, and told per collective.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.edges import Recorded, edges_by_recorders, recorded
from hangtop.diagnosis.collectives.ends import ends_of
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import closes, ends_together
from hangtop.diagnosis.collectives.mismatch import Mismatch, mismatch
from hangtop.diagnosis.collectives.order import LaunchOrder
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, WaitEdge


class Differs(NamedTuple):
    """Ranks that joined one collective with different operations, types or sizes."""

    group: Group
    seq: int
    how: Mismatch
    op: str
    accused: tuple[int, ...]
    """The odd ones; where the votes are even, all of them, unless other groups tell which side is right."""
    created: float


class Unfinished(NamedTuple):
    """The first operation that one rank has open although other members of the group have completed it.

    All have joined an all_reduce that one member has completed: the GPU of a member that has it open stands still.
    """

    rank: int
    group: Group
    operation: Operation
    completed: tuple[int, ...]
    """The members that have completed it."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What the dumps say together. ``culprits`` are the ends of all waits, or those that strayed in a circle."""

    given: Recorded
    edges: tuple[WaitEdge, ...]
    differs: tuple[Differs, ...]
    """The first of every group, the earliest first."""
    stalled: tuple[Group, ...]
    """Groups all of whose members have launched one collective that none has completed."""
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
    def timed(self) -> bool:
        """Whether any recorder tells that a GPU has begun an operation: else all that is open was only scheduled."""
        dumps = self.given.dumps.values()
        return any(entry.state == "started" for dump in dumps for entry in dump.collectives)


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number, and follow the waits to their ends."""
    given = recorded(dumps)
    order = LaunchOrder(given)
    edges = edges_by_recorders(given)
    groups = sorted(given.by_group, key=lambda group: (len(group.name), group.name, group.ranks))
    differs = [found for group in groups if (found := _differs(given, group, order))]
    busy = {rank for progress in given.progress.values() for rank in progress.waiting}
    ends = ends_of(edges, busy | {one.op.rank for one in given.p2p}, given.dumps.keys())
    unfinished = () if ends.ranks else tuple(_unfinished(given))
    culprits = ends.ranks or tuple(one.rank for one in unfinished) or order.strayed()
    in_groups = {edge.waiter for edge in edges if edge.certain and not edge.p2p}
    return Matched(
        given=given,
        edges=edges,
        differs=tuple(sorted(differs, key=lambda found: found.created)),
        stalled=tuple(group for group in groups if _stands(given.progress[group], {edge.waiter for edge in edges})),
        circle=() if culprits or in_groups & set(ends.circle) else ends.circle,
        culprits=culprits,
        torn=not ends.ranks and not unfinished and len(culprits) > 1,
        undumped=ends.undumped,
        unfinished=unfinished,
    )


def _unfinished(given: Recorded) -> Iterator[Unfinished]:
    """Ranks whose GPU has not finished what all others of a group have, in the order of their numbers."""
    for rank, history in sorted(given.histories.items()):
        for group in history.groups:
            first = given.progress[group].waiting.get(rank)
            if first is None or not ends_together(first.name):
                continue
            others = given.by_group[group].items()
            completed = sorted(other for other, its in others if other != rank and its.completed >= first.seq)
            if completed:
                yield Unfinished(rank, group, first, tuple(completed))
                break


def _stands(progress: LaunchProgress, behind: Collection[int]) -> bool:
    """Whether all members stand in one collective, none of them ``behind`` something else: that moved data."""
    waiting = progress.waiting
    return (
        waiting.keys() == progress.members
        and len({one.seq for one in waiting.values()}) == 1
        and not waiting.keys() & set(behind)
    )


def _differs(given: Recorded, group: Group, order: LaunchOrder) -> Differs | None:
    """Find the first unfinished collective that ranks of a group joined in different ways."""
    own = given.by_group[group]
    for seq in sorted({seq for history in own.values() for seq in history.unfinished}):
        closed = {closes(history.entries[seq]) for history in own.values() if seq in history.entries}
        launched = given.operations(group, seq)
        how = (
            mismatch(launched) if len(closed) == 1 else None
        )  # batches may be closed on some ranks and not yet on others
        if how is None:
            continue
        accused = how.counted.odd_ranks
        if how.counted.tied:
            values = {rank: getattr(one, how.what) for rank, one in launched.items()}
            right = order.right_one(group, seq, values, how.what)
            accused = tuple(rank for rank in accused if values[rank] != right)
        created = min((one.since for one in launched.values() if one.since is not None), default=0.0)
        op = how.counted.usual if how.what == "name" else next(iter(launched.values())).name
        return Differs(group, seq, how, op, accused, created)
    return None
