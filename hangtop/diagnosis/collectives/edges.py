"""Which rank waits for which by flight recorder dumps: an edge for each operation that other ranks did not launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.groups import Group, Groups
from hangtop.diagnosis.collectives.history import (
    Condition,
    GroupHistory,
    LaunchHistory,
    P2POp,
    ends_together,
    histories,
    newest,
)
from hangtop.diagnosis.collectives.p2p import P2PMatch, match_p2p
from hangtop.diagnosis.collectives.wait_edge import WaitEdge, Why


class LastLaunch(NamedTuple):
    """The last operation that a rank launched, by its dump."""

    operation: str
    seq: int
    group: str
    condition: Condition


class Missing(NamedTuple):
    """Members of a group that have not launched a collective, and those of which no dump tells."""

    absent: tuple[int, ...]
    undumped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Dumps of many ranks, one a rank, taken apart."""

    dumps: Mapping[int, RecorderDump]
    groups: Groups
    histories: Mapping[int, LaunchHistory]
    by_group: Mapping[Group, Mapping[int, GroupHistory]]
    p2p: tuple[P2PMatch, ...]
    _missing: dict[tuple[Group, int], Missing] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def at(self) -> float | None:
        """Time of the newest entry of any dump."""
        return max((dump.at for dump in self.dumps.values() if dump.at is not None), default=None)

    def members(self, group: Group) -> set[int]:
        """Global ranks of a group."""
        return self.groups.members(group, self.by_group.get(group, ()))

    def missing(self, group: Group, seq: int) -> Missing:
        """Members that have not launched a collective, worked out once for each."""
        known = self._missing.get((group, seq))
        if known is None:
            known = self._missing[group, seq] = self._find_missing(group, seq)
        return known

    def _find_missing(self, group: Group, seq: int) -> Missing:
        own, ranks = self.by_group[group], self.members(group)
        # a dump of active entries alone does not say how far a rank got in a group of which it lists nothing
        unlisted = {
            rank for rank in ranks if rank in self.histories and rank not in own and self.histories[rank].partial
        }
        waiting = [history.entries[seq] for history in own.values() if seq in history.unfinished]
        if 2 * len(waiting) > len(ranks) and all(ends_together(entry) for entry in waiting):
            unlisted = set()  # what most members still wait in, nobody has completed: a member without it is not in it
        absent = [
            rank
            for rank in ranks & self.dumps.keys()
            if rank not in unlisted and (rank not in own or own[rank].enqueued < seq)
        ]
        return Missing(tuple(sorted(absent)), tuple(sorted((ranks - self.dumps.keys()) | unlisted)))

    def last_of(self, rank: int) -> LastLaunch | None:
        """The last operation that a rank launched; None where its dump has none."""
        history = self.histories.get(rank)
        if history is None:
            return None
        found: list[tuple[int, LastLaunch]] = []
        for group, own in history.groups.items():
            seq = max(own.places, key=lambda seq: own.places[seq])
            condition: Condition = "open" if seq in own.unfinished else "done"
            found.append((own.places[seq], LastLaunch(own.entries[seq].op, seq, group.label, condition)))
        if history.p2p:
            op = history.p2p[-1]
            found.append((op.step, LastLaunch(op.label, op.entry.seq, op.group.label, op.condition)))
        return max(found, default=(0, None))[1]

    def spread(self, group: Group, seq: int) -> bool:
        """True in a chain of broadcasts: the root runs ahead and data trickles down, so ranks stand at many places."""
        own = self.by_group[group]
        ops = {history.entries[seq].op for history in own.values() if seq in history.entries}
        return any("broadcast" in op for op in ops) and len({history.enqueued for history in own.values()}) > 2


def recorded(dumps: Iterable[RecorderDump]) -> Recorded:
    """Take the newest dump of every rank apart."""
    own = newest(dumps)
    groups = Groups(own.values())
    history = histories(own, groups)
    by_group: dict[Group, dict[int, GroupHistory]] = defaultdict(dict)
    for rank, one in history.items():
        for group, in_group in one.groups.items():
            by_group[group][rank] = in_group
    return Recorded(own, groups, history, by_group, tuple(match_p2p(history)))


def edges_by_recorders(given: Recorded) -> tuple[WaitEdge, ...]:
    """Edges of flight recorder dumps: of what each rank has open first in each of its groups."""
    edges = [*_of_collectives(given), *_of_p2p(given)]
    while more := list(_behind(given, {edge.waiter for edge in edges})):
        edges += more  # a wait behind a wait behind a wait: as many rounds as stages
    return tuple(edges)


def _of_collectives(given: Recorded) -> Iterator[WaitEdge]:
    for group, own in given.by_group.items():
        certain: dict[int, bool] = {}
        """By number, looked at once: thousands of ranks wait in one of them."""
        for rank, history in sorted(own.items()):
            if not history.unfinished:
                continue
            seq = min(history.unfinished)
            absent, undumped = given.missing(group, seq)
            if absent:
                if seq not in certain:
                    certain[seq] = not given.spread(group, seq)
                yield _collective(given, group, rank, seq, absent, certain[seq], "not launched")
            elif undumped:
                yield _collective(given, group, rank, seq, undumped, False, "not dumped")


def _of_p2p(given: Recorded) -> Iterator[WaitEdge]:
    for one in given.p2p:
        if one.answer != "launched" and one.first and one.op.peer is not None:
            why: Why = "not launched" if one.answer == "absent" else "not dumped"
            yield _p2p(given, one.op, one.op.peer, one.certain, why)


def _behind(given: Recorded, waiting: set[int]) -> Iterator[WaitEdge]:
    """Operations that all launched, some of them after another one that waits."""
    for group, own in given.by_group.items():
        late: dict[int, tuple[int, ...]] = {}
        for rank, history in sorted(own.items()):
            if not history.unfinished or rank in waiting:
                continue
            seq = min(history.unfinished)
            if seq not in late:
                late[seq] = tuple(
                    other for other, its in sorted(own.items())
                    if other in waiting and seq in its.unfinished
                    and given.histories[other].first_open < its.places[seq]
                )  # fmt: skip
            if late[seq]:
                yield _collective(given, group, rank, seq, late[seq], False, "behind")
    for one in given.p2p:
        op, other = one.op, one.other
        late_peer = other is not None and other.condition == "open" and other.rank in waiting
        if one.first and late_peer and op.rank not in waiting and op.peer is not None:
            yield _p2p(given, op, op.peer, certain=False, why="behind")


def _p2p(given: Recorded, op: P2POp, peer: int, certain: bool, why: Why) -> WaitEdge:
    source, entry = given.histories[op.rank].source, op.entry
    return WaitEdge(op.rank, (peer,), op.group.label, op.label, entry.seq, source, certain, why, entry.created)


def _collective(
    given: Recorded, group: Group, rank: int, seq: int, others: tuple[int, ...], certain: bool, why: Why
) -> WaitEdge:
    entry, source = given.by_group[group][rank].entries[seq], given.histories[rank].source
    return WaitEdge(rank, others, group.label, entry.op, seq, source, certain, why, entry.created)
