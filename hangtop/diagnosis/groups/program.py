"""The order in which ranks launch their operations: others with the same part tell which of two sides strayed from it.

Groups of one description and size play one part: their ranks launch the same collectives in the same order. When the
two ranks of a pair are at different operations, or two ranks wait for each other in different groups, the pair itself
cannot tell who is wrong; what the other pairs did at that point can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from collectors.samples.collectives import Collective
from hangtop.diagnosis.groups.edges import Recorded
from hangtop.diagnosis.groups.groups import Group
from hangtop.diagnosis.groups.tracks import Track

AGREED = 0.75
"""Share of those with the same part that must agree before their order is the order."""
_Where: TypeAlias = "tuple[Group, int]"
WINDOW = 200
"""Operations before a point over which courses are compared."""
Part: TypeAlias = "tuple[str, int]"


class Program:
    """What every rank launched in each part that it plays."""

    def __init__(self, given: Recorded) -> None:
        self._given = given
        self._tracks: dict[Part, list[tuple[Group, int, Track]]] = {}
        self._own: dict[int, dict[Part, Track]] = {}
        self._votes: dict[tuple[Group, int, Group, int], dict[int, bool]] = {}
        self._agreed: dict[tuple[Group, int, Group, int], int] = {}
        for group, own in given.tracks.items():
            for rank, track in own.items():
                self._tracks.setdefault(_part(group), []).append((group, rank, track))
                self._own.setdefault(rank, {})[_part(group)] = track

    def right_one(
        self, group: Group, seq: int, values: Mapping[int, str], read: Callable[[Collective], str]
    ) -> str | None:
        """Which value at a number is right, of those that the ranks of a group have there; None where nothing tells.

        Asked are ranks of other groups of the same part whose course up to there was the same as that of a rank here.
        """
        confirmed: set[str] = set()
        for other, witness, track in self._tracks.get(_part(group), ()):
            if other == group or seq not in track.entries:
                continue
            seen = read(track.entries[seq])
            theirs = self._before_it(witness, track.places[seq])
            for rank, value in values.items():
                own = self._before_it(rank, self._given.tracks[group][rank].places[seq])
                if value == seen and _alike(own, theirs):
                    confirmed.add(value)
        return next(iter(confirmed)) if len(confirmed) == 1 else None

    def _before_it(self, rank: int, place: int) -> Sequence[Collective]:
        return self._given.dumps[rank].collectives[max(0, place - WINDOW) : place]

    def strayed(self) -> tuple[int, ...]:
        """Ranks that left the order of operations; both sides of one contradiction where nothing tells which.

        A rank that others wait for in one operation, and that waits in a collective itself, launched the second without
        the first. It is wrong where those with the same parts launch the first before the second. Without any, whoever
        waits for it may show that order; then the rank that contradicts all the others is the one.
        """
        wrong: set[int] = set()
        against: list[set[int]] = []
        for waiter, rank, place, first in self._missed():
            for second in self._open(rank):
                order = None if first is None else self._order(first, second, {waiter, rank})
                if order is True:
                    wrong.add(rank)
                track = self._given.tracks[second[0]].get(waiter)
                if order is None and track is not None and track.places.get(second[1], -1) > place:
                    against.append({waiter, rank})
        if wrong or not against:
            return tuple(sorted(wrong)) if len(wrong) == 1 else ()
        return tuple(sorted(set.intersection(*against)))

    def _missed(self) -> Iterator[tuple[int, int, int, _Where | None]]:
        """Who waits, who has not launched that, where the waiter launched it, and where it stands if a collective."""
        for group, own in self._given.tracks.items():
            for waiter, track in own.items():
                seq = min(track.unfinished, default=None)
                if seq is not None:
                    for rank in self._given.absent(group, seq)[0]:
                        yield waiter, rank, track.places[seq], (group, seq)
        for met in self._given.met:
            if met.answer == "absent" and met.certain and met.half.peer is not None:
                yield met.half.rank, met.half.peer, met.half.place, None

    def _open(self, rank: int) -> Iterator[_Where]:
        for group, track in self._given.courses[rank].tracks.items():
            if track.unfinished:
                yield group, min(track.unfinished)

    def _order(self, first: _Where, second: _Where, besides: Collection[int]) -> bool | None:
        """Whether other ranks launch the one before the other; None where none launched both, or they do not agree."""
        key = (*first, *second)
        if key not in self._votes:
            self._votes[key] = {
                rank: places[0] < places[1]
                for rank, own in self._own.items()
                if (places := _places(own, first, second)) is not None
            }
            self._agreed[key] = sum(self._votes[key].values())
        votes = self._votes[key]
        voters = len(votes) - sum(rank in votes for rank in besides)
        agreed = self._agreed[key] - sum(votes.get(rank, False) for rank in besides)
        share = agreed / voters if voters else 0.5
        return True if share >= AGREED else False if share <= 1 - AGREED else None


def _alike(own: Sequence[Collective], theirs: Sequence[Collective]) -> bool:
    """Whether two ranks launched the same, as far back as both dumps go: pipeline stages are told by their peers."""
    length = min(len(own), len(theirs))
    return all(
        (a.op, a.group_description, a.own, a.peer, a.input_sizes)
        == (b.op, b.group_description, b.own, b.peer, b.input_sizes)
        for a, b in zip(own[len(own) - length :], theirs[len(theirs) - length :], strict=True)
    )


def _part(group: Group) -> Part:
    return group.description or group.name, len(group.ranks)


def _places(own: Mapping[Part, Track], first: _Where, second: _Where) -> tuple[int, int] | None:
    """Where a rank launched both; None where it did not."""
    one, other = (own.get(_part(group)) for group, _ in (first, second))
    if one is None or other is None or first[1] not in one.places or second[1] not in other.places:
        return None
    return one.places[first[1]], other.places[second[1]]
