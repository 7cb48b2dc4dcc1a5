"""Events and lines of all nodes, of which each node has its share."""

from __future__ import annotations

from collections import Counter, deque
from typing import TypeVar

from collectors.samples.logs import LogEvent, LogLines

T = TypeVar("T")

MOST = 20_000
"""Items of all nodes that are kept."""
SHARE = 8_000
"""Of those, items of one node where there are others …"""
MEMORY = 16 << 20
"""… and about how many bytes they may take."""


def size_of(item: object) -> int:
    """About how many bytes of memory an event or lines of a log take."""
    if isinstance(item, LogEvent):
        return 1000 + len(item.text) + sum(len(str(value)) + 100 for value in item.data.values())
    return 1000 + sum(len(line) + 60 for line in item.lines) if isinstance(item, LogLines) else 1000


class NodeShares(deque[tuple[str, T]]):
    """Items as they came, with the node of each; the oldest give way, and one node takes no more than its share.

    A node that is over its share loses its own oldest half. Readers keep their place by how many came in all, and have
    long seen what is that old.
    """

    def __init__(self, most: int = MOST, share: int = SHARE, memory: int = MEMORY) -> None:
        super().__init__(maxlen=most)
        self._share = share
        self._memory = memory
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, node: str, item: T) -> None:
        """Add one."""
        if len(self) == self.maxlen:
            self._count(*self.popleft(), -1)
        self.append((node, item))
        self._count(node, item, 1)
        if self._bytes[node] > self._memory or (self._counts[node] > self._share and len(self._counts) > 1):
            self._halve(node)

    def _count(self, node: str, item: T, sign: int) -> None:
        self._counts[node] += sign
        self._bytes[node] += sign * size_of(item)

    def _halve(self, node: str) -> None:
        own = [entry for entry in self if entry[0] == node]
        going = own[: len(own) // 2]
        for entry in going:
            self._count(*entry, -1)
        gone = set(map(id, going))
        kept = [entry for entry in self if id(entry) not in gone]
        self.clear()
        self.extend(kept)
