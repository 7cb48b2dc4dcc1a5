"""Changes, events and lines of logs, bounded so that many of one kind or node never push out the few of another."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from operator import itemgetter
from typing import Generic, TypeVar

from collectors.samples.logs import LogEvent, LogLines

T = TypeVar("T")

MOST, MEMORY = 20_000, 64 << 20
"""Items that are kept, and about how many bytes they may take."""


def size_of(item: object) -> int:
    """About how many bytes of memory an event or lines of a log take."""
    if isinstance(item, LogEvent):
        return 1000 + len(item.text) + sum(len(str(value)) + 100 for value in item.data.values())
    return 1000 + sum(len(line) + 60 for line in item.lines) if isinstance(item, LogLines) else 1000


class Kept(Generic[T]):
    """Items of several owners as they came; where there are too many, the owner of the most loses its older half."""

    def __init__(self, most: int = MOST, memory: int = MEMORY) -> None:
        self._most, self._memory = most, memory
        self._of: dict[str, deque[tuple[int, T]]] = {}
        """Those of each owner, each with its number since the beginning."""
        self._bytes: Counter[str] = Counter()
        self._held = self._held_bytes = 0
        self.total = 0
        """How many there were since the beginning: readers keep their place by it."""

    def add(self, owner: str, item: T) -> None:
        """Add one."""
        self._of.setdefault(owner, deque()).append((self.total, item))
        self.total += 1
        self._count(owner, item, 1)
        if self._held > self._most or self._held_bytes > self._memory:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            own = self._of[largest]
            for _ in range((len(own) + 1) // 2):
                self._count(largest, own.popleft()[1], -1)

    def _count(self, owner: str, item: T, sign: int) -> None:
        size = sign * size_of(item)
        self._bytes[owner] += size
        self._held_bytes += size
        self._held += sign

    def owners(self) -> list[str]:
        """Who has any."""
        return [owner for owner, own in self._of.items() if own]

    def of(self, owner: str) -> Iterator[T]:
        """Those of one owner, the newest first."""
        return (item for _, item in reversed(self._of.get(owner, ())))

    def since(self, total: int) -> list[tuple[str, T]]:
        """Those that came after so many, in order, each with its owner, as far as they are kept."""
        later = []
        for owner, own in self._of.items():
            for number, item in reversed(own):
                if number < total:
                    break
                later.append((number, owner, item))
        return [(owner, item) for _, owner, item in sorted(later, key=itemgetter(0))]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(self.since(0))

    def __len__(self) -> int:
        return self._held
