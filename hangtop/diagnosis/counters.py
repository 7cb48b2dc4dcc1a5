"""Counters of a port: their names held once for all ports, their numbers side by side.

A port has some thirty counters, and is remembered with three sets of them; as dictionaries those are 30 KB a node. A
set that is kept and seldom read can be :meth:`Counters.packed`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache


class Counters(Mapping[str, int]):
    """Names and numbers, in the order in which they were first told. Nothing here changes."""

    __slots__ = ("_held", "names")

    def __init__(self, names: tuple[str, ...] = (), numbers: tuple[int, ...] | bytes = ()) -> None:
        """Take the names, and as many numbers: as they are, or each in the eight bytes of a signed integer."""
        self.names = names
        self._held = numbers

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers, in the order of the names."""
        held = self._held
        return held if isinstance(held, tuple) else _quads(len(self.names)).unpack(held)

    def packed(self) -> Counters:
        """The same in a third of the memory, slower to read."""
        try:
            return Counters(self.names, _quads(len(self.names)).pack(*self.numbers))
        except struct.error:  # counters that began again so often that their first is beyond 64 bits
            return self

    def __getitem__(self, name: str) -> int:
        try:
            return self.numbers[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, told: Mapping[str, int]) -> Counters:
        """Those of a dictionary."""
        return cls(tuple(told), tuple(told.values()))

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Names with their numbers, without looking each of them up."""
        return zip(self.names, self.numbers, strict=True)

    def step(self, before: Counters, name: str) -> tuple[int, int] | None:
        """What one counted before and counts now; None where it is not known of both."""
        try:
            place = self.names.index(name)
            then = place if before.names is self.names else before.names.index(name)
        except ValueError:
            return None
        return before.numbers[then], self.numbers[place]

    def since(self, first: Counters) -> dict[str, int]:
        """Those that moved since then, and by how much; one that is not known of then has not."""
        if self.names == first.names:
            both = zip(self.names, self.numbers, first.numbers, strict=True)
            return {name: now - was for name, now, was in both if now != was}
        return {name: now - was for name, now in self.pairs() if (was := first.get(name, now)) != now}

    def moved(self, first: Counters, wanted: frozenset[str]) -> bool:
        """Whether any of these has moved since then: told without going through all of them."""
        if self.names != first.names:
            return not wanted.isdisjoint(self.since(first))
        now, was = self.numbers, first.numbers
        return any(now[place] != was[place] for place in _places(self.names, wanted))

    def updated(self, news: Mapping[str, int]) -> Counters:
        """These with some changed; those that are new come last."""
        if tuple(news) == self.names:
            return Counters(self.names, tuple(news.values()))
        merged = {**dict(self.pairs()), **news}
        names = self.names if len(merged) == len(self.names) else _shared(tuple(merged))
        return Counters(names, tuple(merged.values()))


@lru_cache(maxsize=256)
def _quads(count: int) -> struct.Struct:
    return struct.Struct(f"={count}q")


@lru_cache(maxsize=256)
def _places(names: tuple[str, ...], wanted: frozenset[str]) -> tuple[int, ...]:
    """Where these stand among the names, which most ports have alike."""
    return tuple(place for place, name in enumerate(names) if name in wanted)


@lru_cache(maxsize=256)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same names as those of other ports."""
    return names
