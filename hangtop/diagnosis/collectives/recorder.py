"""Flight recorder dumps of many ranks put side by side: which ranks did not join, or joined something else.

Works on any number of dumps: a rank without one is named as such, never an error. Waits are followed to their ends by
:mod:`~hangtop.diagnosis.collectives.ends`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, WaitEdge, differing_field
from hangtop.diagnosis.job import Job

CLOCKS_APART = 5.0
"""Seconds by which the clock in a dump may differ from ours."""


class OpenGroup(NamedTuple):
    """Members of a group have open what all members launched: a GPU of theirs, or the network, stands still."""

    group: Group
    waiting: Mapping[int, Operation]
    """The first operation that each of these ranks has not completed."""
    completed: tuple[int, ...] = ()
    """Members that have completed it; none where it stands on all of them."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What the newest dumps of all ranks say together."""

    dumps: Mapping[int, RecorderDump]
    histories: Mapping[int, LaunchHistory]
    by_group: Mapping[Group, Mapping[int, GroupHistory]]
    progress: Mapping[Group, LaunchProgress]
    edges: tuple[WaitEdge, ...]
    """Waits in what each rank has open first in each of its groups."""
    differs: Mapping[Group, Mapping[int, Operation]]
    """The first collective of a group that ranks launched with different operations, types or sizes, the earliest
    first."""
    circle: tuple[int, ...]
    """Ranks that wait for one another without an end."""
    culprits: tuple[int, ...]
    """The ends of all waits, else ranks whose GPUs stand still, else the rank that strayed in a circle."""
    undumped: tuple[int, ...]
    """Ranks without a dump that the others wait for, where no other is to blame."""
    unfinished: tuple[OpenGroup, ...]
    """Groups that all members have joined, where nobody else is to blame."""

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
    groups = sorted(by_group, key=lambda group: (len(group.name), group.name, group.ranks))
    unfinished = () if ends.ranks else tuple(filter(None, (_on_some(group, by_group, progress) for group in groups)))
    culprits = ends.ranks or tuple(sorted({rank for one in unfinished for rank in one.waiting}))
    culprits = culprits or strayed(every, by_group, progress)
    if not (culprits or ends.circle or ends.undumped):
        behind = {edge.waiter for edge in edges}
        standing = [group for group in groups if _stands(progress[group], behind)]
        unfinished = tuple(OpenGroup(group, progress[group].waiting) for group in standing)
    differs = {group: found for group in groups if (found := _differs(by_group[group], newest))}
    unfinished = tuple(sorted(unfinished, key=lambda one: min(own.since or 0.0 for own in one.waiting.values())))
    return Matched(
        newest, every, by_group, progress, edges,
        differs=dict(sorted(differs.items(), key=lambda item: min(one.since or 0.0 for one in item[1].values()))),
        circle=() if culprits else ends.circle, culprits=culprits, undumped=ends.undumped, unfinished=unfinished,
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


def _on_some(
    group: Group,
    by_group: Mapping[Group, Mapping[int, GroupHistory]],
    progress: Mapping[Group, LaunchProgress],
) -> OpenGroup | None:
    """Members that have open what other members have completed: all had joined it, so their own GPUs stand still."""
    own = by_group[group]
    waiting, completed = {}, set[int]()
    for rank, first in progress[group].waiting.items():
        others = {other for other, its in own.items() if other != rank and its.completed >= first.seq}
        if others and ends_together(first.name):
            waiting[rank] = first
            completed |= others
    return OpenGroup(group, waiting, tuple(sorted(completed))) if waiting else None


def _stands(progress: LaunchProgress, behind: Collection[int]) -> bool:
    """Whether all members stand in one collective, none of them ``behind`` something else: that moved data."""
    waiting = progress.waiting
    return (
        waiting.keys() == progress.members
        and len({one.seq for one in waiting.values()}) == 1
        and not waiting.keys() & set(behind)
    )


def _differs(own: Mapping[int, GroupHistory], dumps: Mapping[int, RecorderDump]) -> Mapping[int, Operation] | None:
    """The first unfinished collective that ranks of a group launched in different ways."""
    for seq in sorted({seq for history in own.values() for seq in history.unfinished}):
        entries = {rank: history.entries[seq] for rank, history in own.items() if seq in history.entries}
        if len({closes(entry) for entry in entries.values()}) > 1:
            continue  # batches may be closed on some ranks and not yet on others
        launched = {rank: operation_of(entry, dumps[rank].source) for rank, entry in entries.items()}
        if differing_field(launched) is not None:
            return launched
    return None


def matched_dumps(job: Job) -> Matched:
    """The flight recorder dumps of the job, put side by side; ask by ``job.once``, for it takes its time.

    Live, none that is older than the process that has the rank now.
    """
    started = {rank.rank: rank.process.started for rank in job.ranks} if job.live else {}
    return match(
        dump for dump in job.recorders if dump.at is None or dump.at >= started.get(dump.rank, dump.at) - CLOCKS_APART
    )
