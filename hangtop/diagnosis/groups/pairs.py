"""Sends and receives put together over ranks: which open half has its other half, and which waits for one in vain.

The k-th send from A to B in a group meets the k-th receive at B from A. Sequence numbers do not tell k (they count all
of a rank's batches), so both sides are counted from a point that they share: the beginning, or a collective that both
launched and that both dumps still hold. Counts that cannot be (more received than was sent) mean that the point was
none; then only open halves are compared, and of a batch with several peers nothing is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, TypeAlias

from hangtop.diagnosis.groups.groups import Group
from hangtop.diagnosis.groups.tracks import Course, Half

Answer = Literal["launched", "absent", "no dump"]
_Way: TypeAlias = "tuple[Group, int, int]"
"""Group, sender, receiver."""


@dataclass(frozen=True, slots=True)
class PeerHalf:
    """What is known of the other half of an open send or receive."""

    half: Half
    answer: Answer
    other: Half | None
    """The other half, where it was launched."""
    certain: bool
    first: bool = True
    """It belongs to what this rank has open first in the group."""


def meetings(courses: Mapping[int, Course]) -> list[PeerHalf]:
    """Look for the other half of whatever each rank has open."""
    book = _Book(courses)
    found = []
    for course in courses.values():
        waited: dict[Group, int] = {}
        for half in course.halves:
            met = book.meeting(half) if half.condition == "open" else None
            if met is not None:
                found.append(replace(met, first=waited.setdefault(half.group, half.step) == half.step))
    return found


def passed_before(courses: Mapping[int, Course], circle: Collection[int], met: Iterable[PeerHalf]) -> bool:
    """Whether ranks that seem to wait in a circle went through the same circle the time before.

    Each of them then launched what it waited for before what it owed, and all came through: somebody posts early and
    goes on, and is late now for another reason than the circle.
    """
    first = {one.half.rank: one.half for one in met if one.first and one.certain and one.answer == "absent"}
    owing = {half.peer: half for half in first.values() if half.peer in circle}
    for rank in circle:
        waits, owed = first.get(rank), owing.get(rank)
        if waits is None or owed is None:
            return False
        own = courses[rank].halves
        same = [
            one.step for one in own if (one.peer, one.sends) == (waits.peer, waits.sends) and one.place < waits.place
        ]
        paid = [one.step for one in own if (one.peer, one.sends) == (owed.rank, not owed.sends)]
        if not same or not paid or same[-1] >= paid[-1]:
            return False
    return True


class _Book:
    """All halves by their way."""

    def __init__(self, courses: Mapping[int, Course]) -> None:
        self._courses = courses
        self._sent: dict[_Way, list[Half]] = defaultdict(list)
        self._received: dict[_Way, list[Half]] = defaultdict(list)
        self._peers: dict[tuple[int, int], set[int | None]] = defaultdict(set)
        for course in courses.values():
            for half in course.halves:
                self._peers[half.rank, half.step].add(half.peer)
                if half.peer is not None:
                    side, way = (self._sent if half.sends else self._received), _way(half)
                    side[way].append(half)

    def meeting(self, half: Half) -> PeerHalf | None:
        """The other half; None where the peer is not known."""
        if half.peer is None:
            return None
        if half.peer not in self._courses:
            return PeerHalf(half, "no dump", None, certain=False)
        way = _way(half)
        own, theirs = self._sent.get(way, []), self._received.get(way, [])
        if not half.sends:
            own, theirs = theirs, own
        start = self._start(half)
        if start is not None:
            mine = [one for one in own if one.place > start[0]]
            others = [one for one in theirs if one.place > start[1]]
            if _fit(mine, others) and half in mine:
                return _at(half, mine.index(half), others, certain=True)
        mine, others = ([one for one in side if one.condition == "open"] for side in (own, theirs))
        # in a batch with several peers the other half may have come and gone; so it may where conditions are unknown
        alone = len(self._peers[half.rank, half.step]) == 1 and all(one.condition != "unknown" for one in theirs)
        listed = all(_lists_all_open(self._courses[rank], half.group) for rank in (half.rank, half.peer))
        return _at(half, mine.index(half), others, certain=alone and listed)

    def _start(self, half: Half) -> tuple[int, int] | None:
        """Places on both ranks from which on their halves may be counted."""
        if half.peer is None:
            return None
        mine, theirs = self._courses[half.rank], self._courses[half.peer]
        if mine.whole and theirs.whole:
            return -1, -1
        if mine.partial or theirs.partial:
            return None
        shared = [
            (track.places[seq], theirs.tracks[group].places[seq])
            for group, track in mine.tracks.items()
            if group in theirs.tracks
            for seq in track.places.keys() & theirs.tracks[group].places.keys()
        ]
        return min(shared, default=None)


def _lists_all_open(course: Course, group: Group) -> bool:
    """False where a full recorder may have dropped sends and receives of a group that are open still.

    They end in the order in which they were launched: what came before one that is done is done, too. Those of a group
    are numbered from 1 on.
    """
    first = next((half for half in course.halves if half.group == group), None)
    return course.whole or first is None or first.condition == "done" or first.entry.seq in (0, 1)


def _way(half: Half) -> _Way:
    peer = -1 if half.peer is None else half.peer
    return (half.group, half.rank, peer) if half.sends else (half.group, peer, half.rank)


def _at(half: Half, index: int, others: Sequence[Half], *, certain: bool) -> PeerHalf:
    other = others[index] if index < len(others) else None
    return PeerHalf(half, "absent" if other is None else "launched", other, certain)


def _fit(mine: Sequence[Half], others: Sequence[Half]) -> bool:
    """True where both may have begun to count at one point: nothing arrived that was not sent, and sizes agree."""
    for one, other in ((mine, others), (others, mine)):
        if sum(half.condition == "done" for half in one) > len(other):
            return False
    return all(
        _elements(a) == _elements(b) or None in (_elements(a), _elements(b))
        for a, b in zip(mine, others, strict=False)
        if a.condition == b.condition == "done"
    )


def _elements(half: Half) -> int | None:
    sizes = half.entry.input_sizes if half.sends else half.entry.output_sizes
    return sum(prod(size) for size in sizes) if sizes else None
