"""Totals over thousands of nodes, worked out a part at a time, so that no single tick takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from hangtop.session.state.job_state import NodeState

T = TypeVar("T")

AT_ONCE = 256
"""Nodes looked at in one tick; a larger job comes round in a few ticks."""


class Rolling(Generic[T]):
    """One value a node; the oldest values are renewed first."""

    def __init__(self, of: Callable[[NodeState], T]) -> None:
        self._of = of
        self._values: dict[str, T] = {}
        self._next = 0

    def fill(self, nodes: Sequence[NodeState]) -> bool:
        """Work out the next ones that have no value yet; whether all nodes have one now."""
        values, of = self._values, self._of
        missing = [node for node in nodes if node.name not in values]
        for node in missing[:AT_ONCE]:
            values[node.name] = of(node)
        return len(missing) <= AT_ONCE

    def turn(self, nodes: Sequence[NodeState]) -> list[T]:
        """Renew what is due and return all values; who cannot wait for those of so many nodes calls :meth:`fill`."""
        values, of = self._values, self._of
        count = len(nodes)
        if len(values) != count:
            self._values = values = {
                node.name: values[node.name] if node.name in values else of(node) for node in nodes
            }
        for step in range(min(AT_ONCE, count)):
            node = nodes[(self._next + step) % count]
            values[node.name] = of(node)
        self._next = (self._next + AT_ONCE) % max(1, count)
        return list(values.values())

    def of(self, name: str) -> T | None:
        """The value that a node had when it was last looked at."""
        return self._values.get(name)

    def forget(self) -> None:
        """Work everything out anew the next time: what is asked for has changed."""
        self._values.clear()
