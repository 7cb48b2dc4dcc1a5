"""Events and lines of all nodes, of which each node has its share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

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
        held = sum(len(v) * (60 if isinstance(v, list) else 1) for v in item.data.values() if isinstance(v, str | list))
        return 800 + len(item.text) + held + 100 * len(item.data)
    if isinstance(item, LogLines):
        return 400 + sum(map(len, item.lines)) + 60 * len(item.lines)
    return 1000


class NodeShares(deque[tuple[str, T]], Generic[T]):
    """Items as they came, with the node of each; the oldest give way, and one node takes no more than its share.

    A node that is over its share loses its own oldest half. Readers keep their place by how many came in all, and have
    long seen what is that old.
    """

    def __init__(
        self, most: int = MOST, share: int = SHARE, memory: int = MEMORY, size: Callable[[T], int] = size_of
    ) -> None:
        """Take ``most`` items of all nodes, and of one among several ``share`` items that take ``memory`` bytes."""
        super().__init__(maxlen=most)
        self._share = share
        self._memory = memory
        self._size = size
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, node: str, item: T) -> bool:
        """Add one; False when the node was over its share and lost its oldest."""
        if self.maxlen is not None and len(self) >= self.maxlen:
            self._count(*self.popleft(), -1)
        self.append((node, item))
        self._count(node, item, 1)
        if (self._counts[node] <= self._share or len(self._counts) == 1) and self._bytes[node] <= self._memory:
            return True
        self._halve(node)
        return False

    def _count(self, node: str, item: T, sign: int) -> None:
        self._counts[node] += sign
        self._bytes[node] += sign * self._size(item)

    def _halve(self, node: str) -> None:
        going = self._counts[node] // 2
        kept: list[tuple[str, T]] = []
        for entry in self:
            if going and entry[0] == node:
                going -= 1
                self._count(node, entry[1], -1)
            else:
                kept.append(entry)
        self.clear()
        self.extend(kept)
