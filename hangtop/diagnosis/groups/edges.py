"""Who waits for whom, by each witness: one typed edge for every operation that a rank launched and others did not.

The interface between what libraries say of collectives and the graph of waits. Pure: dumps, answers and lines in, edges
out. An edge speaks of the operation, not of the host: a rank whose receive waits may have posted it early and be busy
with something else, which its stack tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.groups.groups import Group, Groups
from hangtop.diagnosis.groups.pairs import PeerHalf, meetings
from hangtop.diagnosis.groups.tracks import Course, Half, Track, courses, newest

Why = Literal["not launched", "not dumped", "behind"]
"""``behind``: the other side launched it too, after something that is itself open."""


_ENDS_TOGETHER = ("all", "_all", "reduce_scatter", "_reduce_scatter", "barrier")
"""Beginnings of the operations that end on no rank before every rank has joined."""


def ends_together(entry: Collective) -> bool:
    """Whether an operation ends nowhere before all have joined; a broadcast ends at its root before."""
    return not entry.p2p and entry.op.lower().startswith(_ENDS_TOGETHER)


@dataclass(frozen=True, slots=True)
class Waits:
    """One rank's operation cannot end before others do something. Ranks are global, ``for_ranks`` sorted."""

    waiter: int
    for_ranks: tuple[int, ...]
    group: str
    """Name of the group, as a reader knows it; the communicator for RAS and NCCL's log."""
    operation: str
    """``all_reduce``; ``send`` and ``recv`` for those of two ranks."""
    seq: int | None
    source: str
    certain: bool
    """False where it only may be so: no dump of the others, a launch behind another, counts that are not sure."""
    why: Why = "not launched"
    since: float | None = None
    """When the waiter launched it, seconds since the epoch on its own clock."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last operation that a rank launched, by one witness."""

    rank: int
    group: str
    operation: str
    seq: int | None
    condition: Literal["open", "done", "unknown"]
    source: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Dumps of many ranks, one a rank, taken apart."""

    dumps: Mapping[int, RecorderDump]
    groups: Groups
    courses: Mapping[int, Course]
    tracks: Mapping[Group, Mapping[int, Track]]
    met: tuple[PeerHalf, ...]
    _absent: dict[tuple[Group, int], tuple[tuple[int, ...], tuple[int, ...]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def members(self, group: Group) -> set[int]:
        """Global ranks of a group."""
        return self.groups.members(group, self.tracks.get(group, ()))

    def absent(self, group: Group, seq: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Members that have not launched a collective, and those of which no dump tells."""
        known = self._absent.get((group, seq))
        if known is None:
            known = self._absent[group, seq] = self._look_for_absent(group, seq)
        return known

    def _look_for_absent(self, group: Group, seq: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        own, ranks = self.tracks[group], self.members(group)
        unlisted = self.unlisted(group)
        waiting = [track.entries[seq] for track in own.values() if seq in track.unfinished]
        if 2 * len(waiting) > len(ranks) and all(ends_together(entry) for entry in waiting):
            unlisted = set()  # what most members still wait in, nobody has completed: a member without it is not in it
        missing = [
            rank
            for rank in ranks & self.dumps.keys()
            if rank not in unlisted and (rank not in own or own[rank].enqueued < seq)
        ]
        undumped = ranks - self.dumps.keys()
        return tuple(sorted(missing)), tuple(sorted(undumped | unlisted))

    def unlisted(self, group: Group) -> set[int]:
        """Members whose dump of active entries alone does not say how far they got in a group."""
        own = self.tracks[group]
        return {
            rank
            for rank in self.members(group)
            if rank in self.courses and rank not in own and self.courses[rank].partial
        }


def recorded(dumps: Iterable[RecorderDump]) -> Recorded:
    """Take the newest dump of every rank apart."""
    own = newest(dumps)
    groups = Groups(own.values())
    course = courses(own, groups)
    tracks: dict[Group, dict[int, Track]] = defaultdict(dict)
    for rank, one in course.items():
        for group, track in one.tracks.items():
            tracks[group][rank] = track
    return Recorded(own, groups, course, tracks, tuple(meetings(course)))


def by_recorders(given: Recorded) -> tuple[Waits, ...]:
    """Edges of flight recorder dumps: of what each rank has open first in each of its groups."""
    edges = [*_of_collectives(given), *_of_halves(given)]
    while True:  # a wait behind a wait behind a wait: as many rounds as stages
        more = list(_behind(given, {edge.waiter for edge in edges}))
        if not more:
            return tuple(edges)
        edges += more


def last_of(given: Recorded) -> Mapping[int, Last]:
    """The last operation that each dumped rank launched."""
    found = {}
    for rank, course in given.courses.items():
        track = max(
            ((track.places[seq], group, seq, track) for group, track in course.tracks.items() for seq in track.places),
            key=lambda item: item[0],
            default=None,
        )
        half = course.halves[-1] if course.halves else None
        if half is not None and (track is None or half.step > track[0]):
            name, seq = half.label, half.entry.seq
            found[rank] = Last(rank, half.group.label, name, seq, half.condition, course.source, half.entry.created)
        elif track is not None:
            _, group, seq, own = track
            condition: Literal["open", "done"] = "open" if seq in own.unfinished else "done"
            entry = own.entries[seq]
            found[rank] = Last(rank, group.label, entry.op, seq, condition, course.source, entry.created)
    return found


def _of_collectives(given: Recorded) -> Iterator[Waits]:
    for group, own in given.tracks.items():
        certain: dict[int, bool] = {}
        """By number, looked at once: thousands of ranks wait in one of them."""
        for rank, track in sorted(own.items()):
            if not track.unfinished:
                continue
            seq = min(track.unfinished)
            missing, undumped = given.absent(group, seq)
            if missing:
                if seq not in certain:
                    certain[seq] = not spread(given, group, seq)
                yield _collective(given, group, rank, seq, missing, certain[seq], "not launched")
            elif undumped:
                yield _collective(given, group, rank, seq, undumped, False, "not dumped")


def spread(given: Recorded, group: Group, seq: int) -> bool:
    """True in a chain of broadcasts: the root runs ahead and data trickles down, so ranks stand at many places."""
    own = given.tracks[group]
    ops = {track.entries[seq].op for track in own.values() if seq in track.entries}
    places = {track.enqueued for track in own.values()}
    return any("broadcast" in op for op in ops) and len(places) > 2


def _of_halves(given: Recorded) -> Iterator[Waits]:
    for met in given.met:
        half = met.half
        if met.answer == "launched" or not met.first:
            continue
        why: Why = "not launched" if met.answer == "absent" else "not dumped"
        yield _edge(given, half, met.certain, why)


def _edge(given: Recorded, half: Half, certain: bool, why: Why) -> Waits:
    assert half.peer is not None
    source = given.courses[half.rank].source
    entry = half.entry
    return Waits(half.rank, (half.peer,), half.group.label, half.label, entry.seq, source, certain, why, entry.created)


def _collective(
    given: Recorded, group: Group, rank: int, seq: int, others: tuple[int, ...], certain: bool, why: Why
) -> Waits:
    entry, source = given.tracks[group][rank].entries[seq], given.courses[rank].source
    return Waits(rank, others, group.label, entry.op, seq, source, certain, why, entry.created)


def _behind(given: Recorded, waiting: set[int]) -> Iterator[Waits]:
    """Operations that all launched, some of them after another one that waits."""
    for group, own in given.tracks.items():
        free = [rank for rank, track in sorted(own.items()) if track.unfinished and rank not in waiting]
        late: dict[int, tuple[int, ...]] = {}
        for rank in free:
            seq = min(own[rank].unfinished)
            if seq not in late:
                late[seq] = tuple(
                    other
                    for other, its in sorted(own.items())
                    if other in waiting and seq in its.unfinished
                    and _first_open(given.courses[other]) < its.places[seq]
                )  # fmt: skip
            if late[seq]:
                yield _collective(given, group, rank, seq, late[seq], False, "behind")
    for met in given.met:
        other = met.other
        if (
            met.first
            and met.half.rank not in waiting
            and other is not None
            and other.condition == "open"
            and other.rank in waiting
        ):
            yield _edge(given, met.half, certain=False, why="behind")


def _first_open(course: Course) -> int:
    """Place of the first operation that a rank has open, in whatever group."""
    places = [track.places[min(track.unfinished)] for track in course.tracks.values() if track.unfinished]
    places += [half.place for half in course.halves if half.condition == "open"]
    return min(places, default=course.last + 1)
