"""Flight recorder dumps of many ranks put side by side: which ranks did not join, or joined something else.

Works on any number of dumps: a rank without one is named as such, never an error. Waits are followed to their ends by
:mod:`~hangtop.diagnosis.collectives.ends`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.ends import ends_of, strayed
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import (
    GroupHistory,
    LaunchHistory,
    closes,
    ends_together,
    histories,
    operation_of,
)
from hangtop.diagnosis.collectives.p2p import p2p_edges
from hangtop.diagnosis.collectives.progress import LaunchProgress, Mismatch, Operation, WaitEdge, mismatch


class Differs(NamedTuple):
    """Ranks that joined one collective with different operations, types or sizes."""

    group: Group
    seq: int
    how: Mismatch
    op: str
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
    """What the newest dumps of all ranks say together."""

    dumps: Mapping[int, RecorderDump]
    histories: Mapping[int, LaunchHistory]
    by_group: Mapping[Group, Mapping[int, GroupHistory]]
    progress: Mapping[Group, LaunchProgress]
    edges: tuple[WaitEdge, ...]
    """Waits in what each rank has open first in each of its groups."""
    differs: tuple[Differs, ...]
    """The first of every group, the earliest first."""
    stalled: tuple[Group, ...]
    """Groups all of whose members have launched one collective that none has completed."""
    circle: tuple[int, ...]
    """Ranks that wait for one another in sends and receives whose counterparts are all known."""
    culprits: tuple[int, ...]
    """The ends of all waits, or those that strayed in a circle."""
    torn: bool
    """The culprits are two that contradict each other, and one of them is right."""
    undumped: tuple[int, ...]
    """Ranks without a dump that the others wait for, where no other is to blame."""
    unfinished: tuple[Unfinished, ...]
    """Where a rank has open what its peers have completed, one a rank."""

    @property
    def at(self) -> float | None:
        """Time of the newest entry of any dump."""
        return max((dump.at for dump in self.dumps.values() if dump.at is not None), default=None)

    @property
    def timed(self) -> bool:
        """Whether any recorder tells that a GPU has begun an operation: else all that is open was only scheduled."""
        return any(entry.state == "started" for dump in self.dumps.values() for entry in dump.collectives)


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number, and follow the waits to their ends."""
    newest = {dump.rank: dump for dump in sorted(dumps, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))}
    every = histories(newest.values())
    by_group: dict[Group, dict[int, GroupHistory]] = defaultdict(dict)
    for rank, one in every.items():
        for group, own in one.groups.items():
            by_group[group][rank] = own
    progress = {group: _progress(group, ranks, every) for group, ranks in by_group.items()}
    edges = (*(edge for one in progress.values() for edge in one.edges()), *p2p_edges(every))
    busy = {rank for one in progress.values() for rank in one.waiting}
    busy |= {op.rank for one in every.values() for op in one.p2p if op.condition == "open" and op.peer is not None}
    ends = ends_of(edges, busy, newest.keys())
    unfinished = () if ends.ranks else tuple(_unfinished(every, by_group, progress))
    culprits = ends.ranks or tuple(one.rank for one in unfinished) or strayed(every, by_group, progress)
    in_groups = {edge.waiter for edge in edges if edge.certain and not edge.p2p}
    groups = sorted(by_group, key=lambda group: (len(group.name), group.name, group.ranks))
    differs = [found for group in groups if (found := _differs(group, by_group[group], newest))]
    return Matched(
        newest, every, by_group, progress, edges,
        differs=tuple(sorted(differs, key=lambda found: found.created)),
        stalled=tuple(group for group in groups if _stands(progress[group], {edge.waiter for edge in edges})),
        circle=() if culprits or in_groups & set(ends.circle) else ends.circle,
        culprits=culprits,
        torn=not ends.ranks and not unfinished and len(culprits) > 1,
        undumped=ends.undumped,
        unfinished=unfinished,
    )  # fmt: skip


def _progress(group: Group, own: Mapping[int, GroupHistory], every: Mapping[int, LaunchHistory]) -> LaunchProgress:
    """Members that were dumped and list nothing of the group have launched nothing in it.

    A dump of active entries alone may leave out what is done; but what most members still wait in, nobody has
    completed: a member that does not list it has not launched it.
    """
    members = set(group.ranks) or set(every if group.whole else own)
    waiting = {
        rank: operation_of(its.entries[min(its.unfinished)], every[rank].dump.source)
        for rank, its in own.items()
        if its.unfinished
    }
    last = {rank: Operation("", its.enqueued, every[rank].dump.source) for rank, its in own.items()}
    most_wait = 2 * len(waiting) > len(members) and all(ends_together(one.name) for one in waiting.values())
    for rank in (members & every.keys()) - own.keys():
        if most_wait or not every[rank].partial:
            last[rank] = Operation("", -1, every[rank].dump.source)
    return LaunchProgress(group.label, frozenset(members), last, waiting)


def _unfinished(
    every: Mapping[int, LaunchHistory],
    by_group: Mapping[Group, Mapping[int, GroupHistory]],
    progress: Mapping[Group, LaunchProgress],
) -> Iterator[Unfinished]:
    """Ranks whose GPU has not finished what all others of a group have, in the order of their numbers."""
    for rank, history in sorted(every.items()):
        for group in history.groups:
            first = progress[group].waiting.get(rank)
            if first is None or not ends_together(first.name):
                continue
            others = by_group[group].items()
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


def _differs(group: Group, own: Mapping[int, GroupHistory], dumps: Mapping[int, RecorderDump]) -> Differs | None:
    """Find the first unfinished collective that ranks of a group joined in different ways."""
    for seq in sorted({seq for history in own.values() for seq in history.unfinished}):
        entries = {rank: history.entries[seq] for rank, history in own.items() if seq in history.entries}
        if len({closes(entry) for entry in entries.values()}) > 1:
            continue  # batches may be closed on some ranks and not yet on others
        launched = {rank: operation_of(entry, dumps[rank].source) for rank, entry in entries.items()}
        how = mismatch(launched)
        if how is not None:
            created = min((one.since for one in launched.values() if one.since is not None), default=0.0)
            op = how.counted.usual if how.what == "name" else next(iter(launched.values())).name
            return Differs(group, seq, how, op, created)
    return None
