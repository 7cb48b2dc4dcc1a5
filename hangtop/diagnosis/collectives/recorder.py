"""Flight recorder dumps of many ranks compared: which ranks did not join, or joined another operation.

Works on any number of dumps: a rank without a dump is reported, never an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.ends import cycle_of, strayed
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, WaitEdge, differing_field
from hangtop.diagnosis.collectives.recorded import RankInGroup, Recorded, closes, p2p_edges, recorded
from hangtop.diagnosis.job import Job, once

CLOCKS_APART = 5.0
"""Seconds by which the clock in a dump may differ from ours."""


class OpenGroup(NamedTuple):
    """A collective that all members launched and some have open: one of their GPUs, or the network, stands still."""

    label: str
    waiting: Mapping[int, Operation]
    """The first operation that each of these ranks has not completed."""
    completed: tuple[int, ...] = ()
    """Members that have completed it; empty if it is open on all members."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The newest dumps of all ranks, compared."""

    dumps: Mapping[int, RecorderDump]
    progress: tuple[LaunchProgress, ...]
    """One record per group."""
    edges: tuple[WaitEdge, ...]
    """Waits in each rank's first open operation of each of its groups."""
    differs: tuple[Mapping[int, Operation], ...]
    """For each group, the first collective that ranks launched with different operations, types or sizes; the earliest
    first."""
    cycle: tuple[int, ...]
    """Ranks in a cycle of waits."""
    culprits: tuple[int, ...]
    """Ranks at which all waits end; else ranks whose GPUs stand still; else the rank with the wrong order."""
    undumped: tuple[int, ...]
    """Ranks without a dump that others wait for, if no rank with a dump is to blame."""
    unfinished: tuple[OpenGroup, ...]
    """Collectives that all members have joined, if no other rank is to blame; the one that is open longest first."""

    @property
    def at(self) -> float | None:
        """Time of the newest entry of any dump."""
        return max((dump.at for dump in self.dumps.values() if dump.at is not None), default=None)

    @property
    def timed(self) -> bool:
        """Whether any entry shows that a GPU has begun an operation: else open operations are only scheduled."""
        return any(entry.state == "started" for dump in self.dumps.values() for entry in dump.collectives)


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number, and follow the waits to their ends.

    A rank that waits in an operation itself is no culprit at first. A rank without a dump is none as long as a rank
    with a dump is to blame, or more ranks have no dump than wait.
    """
    launched = recorded(dumps)
    groups = sorted(launched.groups, key=lambda group: (len(group.name), group.name, group.ranks))
    progress = {group: _progress(group, launched) for group in groups}
    edges = (*(edge for record in progress.values() for edge in record.edges()), *p2p_edges(launched))
    sure: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        if edge.certain:
            sure[edge.waiter].update(edge.for_ranks)
    waiters = {edge.waiter for edge in edges}
    busy = {rank for record in progress.values() for rank in record.waiting}
    busy |= {op.rank for op in launched.p2p if op.open and op.peer is not None}
    ends = set().union(*sure.values()) - waiters
    culprits = ends - busy
    cycle = cycle_of(sure)
    undumped = {rank for edge in edges if edge.uncovered for rank in edge.for_ranks} - launched.dumps.keys()
    if culprits or cycle or len(undumped) > len(waiters):
        undumped = set()
    unfinished = [] if culprits else [left for group in groups if (left := _on_some(progress[group]))]
    culprits = culprits or {rank for left in unfinished for rank in left.waiting} or strayed(launched.groups, progress)
    # gloo lists no members: a rank alone in its group waits in a collective that no other rank has joined
    alone = {rank for record in progress.values() if len(record.members) == 1 for rank in record.waiting}
    culprits = culprits or ends & alone
    if not (culprits or cycle or undumped):
        unfinished = [OpenGroup(record.label, record.waiting) for record in progress.values() if _stands(record)]
    return Matched(
        launched.dumps, tuple(progress.values()), edges,
        differs=tuple(sorted(filter(None, map(_differs, [launched.groups[group] for group in groups])), key=_since)),
        cycle=() if culprits else tuple(sorted(cycle)),
        culprits=tuple(sorted(culprits)),
        undumped=tuple(sorted(undumped)),
        unfinished=tuple(sorted(unfinished, key=lambda group: _since(group.waiting))),
    )  # fmt: skip


def _since(operations: Mapping[int, Operation]) -> float:
    return min(operation.since or 0.0 for operation in operations.values())


def _progress(group: Group, launched: Recorded) -> LaunchProgress:
    """Progress of one group: members whose dump lists nothing of the group have launched nothing in it.

    A dump of open operations alone may be empty: its status shows what was done.
    """
    by_rank, dumps = launched.groups[group], launched.dumps
    members = set(group.ranks) or set(dumps if group.whole else by_rank)
    waiting = {rank: calls.operation(calls.unfinished[0]) for rank, calls in by_rank.items() if calls.unfinished}
    last = {rank: Operation("", calls.enqueued, calls.source) for rank, calls in by_rank.items()}
    for rank in (members & dumps.keys()) - by_rank.keys():
        if dumps[rank].collectives or not any(completed for _, completed in dumps[rank].status.values()):
            last[rank] = Operation("", -1, dumps[rank].source)
    completed = {rank: calls.completed for rank, calls in by_rank.items()}
    return LaunchProgress(group.label, frozenset(members), last, waiting, completed=completed)


def _on_some(progress: LaunchProgress) -> OpenGroup | None:
    """A collective that some members have open and others completed."""
    passed = progress.passed
    completed = frozenset[int]().union(*passed.values())
    waiting = {rank: progress.waiting[rank] for rank in passed}
    return OpenGroup(progress.label, waiting, tuple(sorted(completed))) if passed else None


def _stands(progress: LaunchProgress) -> bool:
    """Whether all members stand in one collective."""
    waiting = progress.waiting
    return waiting.keys() == progress.members and len({operation.seq for operation in waiting.values()}) == 1


def _differs(by_rank: Mapping[int, RankInGroup]) -> Mapping[int, Operation] | None:
    """The first unfinished collective that ranks of a group launched in different ways."""
    for seq in sorted({seq for calls in by_rank.values() for seq in calls.unfinished}):
        there = {rank: calls for rank, calls in by_rank.items() if seq in calls.entries}
        launched = {rank: calls.operation(seq) for rank, calls in there.items()}
        # batches may be closed on some ranks and not yet on others
        if len({closes(calls.entries[seq]) for calls in there.values()}) == 1 and differing_field(launched) is not None:
            return launched
    return None


@once
def matched_dumps(job: Job) -> Matched:
    """The flight recorder dumps of the job, compared.

    Live, dumps that are older than the present process of their rank do not count.
    """
    started = {rank.rank: rank.process.started for rank in job.ranks} if job.live else {}
    return match(
        dump for dump in job.recorders if dump.at is None or dump.at >= started.get(dump.rank, dump.at) - CLOCKS_APART
    )
