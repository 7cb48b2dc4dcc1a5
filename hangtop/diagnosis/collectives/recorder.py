"""Flight recorder dumps of many ranks put side by side: who did not join, who joined something else, who waits in vain.

Works on any number of dumps: a rank without one is named as such, never an error. gloo's quirks are met by not
believing ``state`` (it stays "scheduled" for ever) but ``retired`` and the group's status.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.collectives.vote import Vote, vote

SAME_INPUT = frozenset(
    {
        "all_reduce", "allreduce", "broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base", "all_gather",
        "_all_gather_base", "all_gather_into_tensor", "reduce_scatter_tensor", "_allgather_base",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""
WITHOUT_SIZE = frozenset({"barrier"})


@dataclass(frozen=True, slots=True)
class Differs:
    """Ranks that joined one collective with different operations, sizes or types."""

    group: str
    seq: int
    what: Literal["op", "size", "dtype"]
    counted: Vote[str]
    op: str


@dataclass(frozen=True, slots=True)
class NotJoined:
    """A collective that some ranks wait in and others have not launched. ``finished`` is the last that those did."""

    group: str
    seq: int
    op: str
    waiting: tuple[int, ...]
    absent: tuple[int, ...]
    undumped: tuple[int, ...]
    """Members of the group without a dump."""
    finished: int | None
    age: float | None
    """Seconds that the oldest of those who wait had waited when it was dumped."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Sends and receives without their other half: rank → (operation, peer)."""

    wants: Mapping[int, tuple[str, int]]
    circle: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """What the dumps say together. ``culprits`` are the ends of all waits."""

    differs: tuple[Differs, ...]
    not_joined: tuple[NotJoined, ...]
    stalled: tuple[NotJoined, ...]
    """Collectives that all members joined and nobody completed (``absent`` is empty)."""
    unanswered: Unanswered | None
    culprits: tuple[int, ...]
    dumped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Track:
    """One rank in one group: its entries by sequence number, and how far it got."""

    entries: Mapping[int, Collective]
    enqueued: int
    completed: int

    @property
    def unfinished(self) -> set[int]:
        """Sequence numbers that this rank launched and has not finished."""
        return {seq for seq, entry in self.entries.items() if not is_done(entry) and seq > self.completed}


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number."""
    newest = {dump.rank: dump for dump in sorted(dumps, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))}
    members = members_of(newest.values())
    tracks: dict[str, dict[int, Track]] = defaultdict(dict)
    for rank, dump in newest.items():
        for group, track in tracks_of(dump).items():
            tracks[group][rank] = track
    differs: list[Differs] = []
    not_joined: list[NotJoined] = []
    stalled: list[NotJoined] = []
    for group in sorted(tracks):
        own = tracks[group]
        ranks = members.get(group) or everybody(group, own, newest)
        differing = _differs(group, own)
        if differing:
            differs.append(differing)
        stop = _stop(group, own, ranks, newest)
        if stop and (stop.absent or stop.undumped):
            not_joined.append(stop)
        elif stop and not differing:
            stalled.append(stop)
    unanswered = _unanswered(newest.values())
    culprits = _ends(not_joined, differs, unanswered)
    return Matched(tuple(differs), tuple(not_joined), tuple(stalled), unanswered, culprits, tuple(sorted(newest)))


def is_done(entry: Collective) -> bool:
    """True for a collective that this rank has finished."""
    return entry.retired or entry.state == "completed"


def members_of(dumps: Iterable[RecorderDump]) -> dict[str, set[int]]:
    """Global ranks of every group that the dumps' configuration names."""
    found: dict[str, set[int]] = defaultdict(set)
    for dump in dumps:
        for name, ranks in dump.groups.items():
            if name:
                found[name].update(ranks)
    return found


def everybody(group: str, own: Collection[int], newest: Collection[int]) -> set[int]:
    """Members of a group that no configuration tells (gloo): those that used it; of the default group, all."""
    return set(newest) if group in ("0", "default_pg", "") else set(own)


def tracks_of(dump: RecorderDump) -> dict[str, Track]:
    """One rank's course through each of its groups; sends and receives are left out."""
    status = {entry.group: entry for entry in dump.status}
    by_group: dict[str, dict[int, Collective]] = defaultdict(dict)
    for entry in dump.collectives:
        if not entry.p2p:
            by_group[entry.group][entry.seq] = entry
    made = {}
    for group, entries in by_group.items():
        told = status.get(group)
        enqueued = max([*entries, told.last_enqueued if told and told.last_enqueued is not None else -1])
        done = [seq for seq, entry in entries.items() if is_done(entry)]
        completed = max([*done, told.last_completed if told and told.last_completed is not None else -1])
        made[group] = Track(entries, enqueued, completed)
    return made


def _stop(
    group: str, own: Mapping[int, Track], ranks: set[int], newest: Mapping[int, RecorderDump]
) -> NotJoined | None:
    """Find the first collective of a group that somebody launched and nobody can finish."""
    open_seqs = {rank: min(track.unfinished) for rank, track in own.items() if track.unfinished}
    if not open_seqs:
        return None
    seq = min(open_seqs.values())
    waiting = tuple(sorted(rank for rank, first in open_seqs.items() if first == seq))
    absent = tuple(sorted(rank for rank in ranks if rank in newest and (rank not in own or own[rank].enqueued < seq)))
    finished = max((own[rank].completed for rank in absent if rank in own), default=None)
    ages = []
    for rank in waiting:
        created, taken = own[rank].entries[seq].created, newest[rank].at
        if created is not None and taken is not None:
            ages.append(taken - created)
    ops = vote({rank: own[rank].entries[seq].op for rank in waiting})
    op = ops.usual if ops else own[waiting[0]].entries[seq].op
    undumped = tuple(sorted(ranks - set(newest)))
    return NotJoined(group, seq, op, waiting, absent, undumped, finished, max(ages, default=None))


def _differs(group: str, own: Mapping[int, Track]) -> Differs | None:
    """Find the first unfinished collective that ranks of a group joined in different ways."""
    for seq in sorted({seq for track in own.values() for seq in track.unfinished}):
        entries = {rank: track.entries[seq] for rank, track in own.items() if seq in track.entries}
        ops = vote({rank: entry.op for rank, entry in entries.items()})
        if ops is None:
            continue
        if ops.odd:
            return Differs(group, seq, "op", ops, ops.usual)
        if ops.usual in WITHOUT_SIZE:
            continue
        types = vote({rank: ",".join(entry.input_dtypes) for rank, entry in entries.items()})
        if types is not None and types.odd:
            return Differs(group, seq, "dtype", types, ops.usual)
        if ops.usual in SAME_INPUT:
            sizes = vote({rank: shape(entry.input_sizes) for rank, entry in entries.items()})
            if sizes is not None and sizes.odd:
                return Differs(group, seq, "size", sizes, ops.usual)
    return None


def shape(sizes: Sequence[Sequence[int]]) -> str:
    """``4096``, ``2×3, 5``; a tensor without dimensions is ``scalar``."""
    return ", ".join("×".join(map(str, size)) or "scalar" for size in sizes)


def _unanswered(dumps: Iterable[RecorderDump]) -> Unanswered | None:
    """Sends and receives that are open, where the peer has not its half open towards this rank."""
    wants: dict[int, tuple[str, int]] = {}
    for dump in dumps:
        first = min(
            (entry for entry in dump.collectives if entry.p2p and not is_done(entry) and entry.peer is not None),
            key=lambda entry: (entry.created or 0.0, entry.seq),
            default=None,
        )
        if first is not None and first.peer is not None:
            wants[dump.rank] = "recv" if "recv" in first.op else "send", first.peer
    open_ones = {
        rank: (side, peer)
        for rank, (side, peer) in wants.items()
        if peer not in wants or wants[peer][1] != rank or wants[peer][0] == side
    }
    if not open_ones:
        return None
    circle: set[int] = set()
    for start in open_ones:
        path = [start]
        while path[-1] in open_ones and open_ones[path[-1]][1] not in path:
            path.append(open_ones[path[-1]][1])
        if path[-1] in open_ones:
            circle.update(path[path.index(open_ones[path[-1]][1]) :])
    return Unanswered(open_ones, tuple(sorted(circle)))


def _ends(
    not_joined: Sequence[NotJoined], differs: Sequence[Differs], unanswered: Unanswered | None
) -> tuple[int, ...]:
    """Follow who waits for whom over all groups, to the ranks that wait for nobody."""
    waits_for: dict[int, set[int]] = defaultdict(set)
    for stop in not_joined:
        for rank in stop.waiting:
            waits_for[rank].update(stop.absent)
    for rank, (_, peer) in (unanswered.wants if unanswered else {}).items():
        waits_for[rank].add(peer)
    blamed = {rank for absent in waits_for.values() for rank in absent}
    ends = {rank for rank in blamed if not waits_for.get(rank)}
    if not ends:
        ends = {rank for one in differs for rank in one.counted.odd_ranks}
        ends |= set(unanswered.circle) if unanswered else set()
    if not ends and not_joined:
        # they wait for each other across groups: the fewest against the most
        fewest = min(not_joined, key=lambda stop: (len(stop.absent) or len(stop.waiting), stop.group))
        ends = set(fewest.absent) if len(fewest.absent) <= len(fewest.waiting) else set(fewest.waiting)
    return tuple(sorted(ends))
