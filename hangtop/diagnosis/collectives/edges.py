"""Flight recorder dumps as progress of each group, and the waits by that and by sends and receives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import (
    GroupHistory,
    LaunchHistory,
    ends_together,
    histories,
    operation_of,
)
from hangtop.diagnosis.collectives.p2p import P2PMatch, match_p2p
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, WaitEdge, Why


@dataclass(frozen=True, slots=True)
class Recorded:
    """Dumps of many ranks, one a rank, taken apart."""

    dumps: Mapping[int, RecorderDump]
    histories: Mapping[int, LaunchHistory]
    by_group: Mapping[Group, Mapping[int, GroupHistory]]
    progress: Mapping[Group, LaunchProgress]
    p2p: tuple[P2PMatch, ...]

    @property
    def at(self) -> float | None:
        """Time of the newest entry of any dump."""
        return max((dump.at for dump in self.dumps.values() if dump.at is not None), default=None)

    def operations(self, group: Group, seq: int) -> dict[int, Operation]:
        """What each rank launched at a number of a group."""
        own = self.by_group[group].items()
        return {
            rank: operation_of(its.entries[seq], self.dumps[rank].source) for rank, its in own if seq in its.entries
        }


def recorded(dumps: Iterable[RecorderDump]) -> Recorded:
    """Take the newest dump of every rank apart."""
    own = {dump.rank: dump for dump in sorted(dumps, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))}
    history = histories(own.values())
    by_group: dict[Group, dict[int, GroupHistory]] = defaultdict(dict)
    for rank, one in history.items():
        for group, in_group in one.groups.items():
            by_group[group][rank] = in_group
    progress = {group: _progress(group, ranks, history) for group, ranks in by_group.items()}
    return Recorded(own, history, by_group, progress, tuple(match_p2p(history)))


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


def edges_by_recorders(given: Recorded) -> tuple[WaitEdge, ...]:
    """Waits in what each rank has open first in each of its groups."""
    edges = [edge for progress in given.progress.values() for edge in progress.edges()]
    for one in given.p2p:
        if one.answer != "launched" and one.first:
            why: Why = "not launched" if one.answer == "absent" else "not dumped"
            label, seq, created = one.op.group.label, one.op.entry.seq, one.op.entry.created
            source = given.dumps[one.op.rank].source
            edges.append(
                WaitEdge(one.op.rank, (one.peer,), label, one.op.label, seq, source, one.certain, why, created)
            )
    return tuple(edges)
