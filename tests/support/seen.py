"""A sink that keeps everything, and can be waited on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from collectors.fleet.sink import LinkChange


class Seen:
    """Everything that a fleet delivered, by node."""

    def __init__(self) -> None:
        self.taken: dict[str, list[NamedTuple]] = {}
        self.changes: list[LinkChange] = []
        self.bad: list[tuple[str, str, str]] = []
        self._news = asyncio.Event()

    # --- as a Sink ------------------------------------------------------------------------------------------------

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        """Keep samples."""
        self.taken.setdefault(node, []).extend(samples)
        self._news.set()

    def link(self, change: LinkChange) -> None:
        """Keep a change."""
        self.changes.append(change)
        self._news.set()

    def bad_line(self, node: str, text: str, why: str, _lines: int = 1) -> None:
        """Keep a bad line."""
        self.bad.append((node, text, why))
        self._news.set()

    # --- for the test ---------------------------------------------------------------------------------------------

    def of(self, node: str, kind: type) -> list[NamedTuple]:
        """All samples of one kind from one node."""
        return [sample for sample in self.taken.get(node, ()) if isinstance(sample, kind)]

    def now(self, node: str) -> LinkChange:
        """The node's latest state."""
        return next(change for change in reversed(self.changes) if change.node == node)

    async def wait(self, condition: Callable[[], bool], timeout: float = 60.0) -> None:
        """Wait until something is true of what came. Raises :class:`TimeoutError`."""
        async with asyncio.timeout(timeout):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def until(self, node: str, link: str, why: str = "", timeout: float = 60.0) -> LinkChange:
        """Wait until a node is in a state, for a reason that contains ``why``."""
        await self.wait(lambda: self.now(node).link == link and why in self.now(node).why, timeout)
        return self.now(node)
