"""Counters of a port: their names held once for all ports, their numbers side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Counters(Mapping[str, int]):
    """Names and numbers, in the order in which they were first told. Nothing here changes."""

    __slots__ = ("names", "numbers")

    def __init__(self, names: tuple[str, ...] = (), numbers: tuple[int, ...] = ()) -> None:
        """Take the names, and as many numbers."""
        self.names = names
        self.numbers = numbers

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
            return before[name], self[name]
        except KeyError:
            return None

    def since(self, first: Counters) -> dict[str, int]:
        """Those that moved since then, and by how much; one that is not known of then has not."""
        if self.names == first.names:
            both = zip(self.names, self.numbers, first.numbers, strict=True)
            return {name: now - was for name, now, was in both if now != was}
        return {name: now - was for name, now in self.pairs() if (was := first.get(name, now)) != now}

    def updated(self, news: Mapping[str, int]) -> Counters:
        """These with some changed; those that are new come last."""
        if tuple(news) == self.names:
            return Counters(self.names, tuple(news.values()))
        merged = {**dict(self.pairs()), **news}
        return Counters(self.names if len(merged) == len(self.names) else tuple(merged), tuple(merged.values()))
