"""Lanes by node: those of the ranks of a node, or of its GPUs, lie side by side in a few objects."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator, Mapping
from math import floor, isnan, nan
from typing import TypeAlias

from hangtop.session.history.lanes import Lane, LaneCells

Key: TypeAlias = tuple[str, int]
"""Node and pid of a rank, or node and index of a GPU."""


class Lanes:
    """One thing at both grains; the fine one only where the job is small enough, and else the coarse one coarser.

    Made when it is asked for, as :class:`~hangtop.session.history.lanes.Lane` is.
    """

    __slots__ = ("_node", "_place")

    def __init__(self, own: NodeLanes, place: int) -> None:
        """Take the thing at this place of its node's."""
        self._node = own
        self._place = place

    @property
    def fine(self) -> Lane | None:
        """By the second."""
        grid = self._node.fine
        return None if grid is None else Lane(grid, self._place)

    @property
    def coarse(self) -> Lane:
        """The whole hour."""
        return Lane(self._node.coarse, self._place)

    @property
    def since(self) -> float | None:
        """Since when it has stood still; None while it moves, and for what does not move by itself."""
        since = self._node.since[self._place]
        return None if isnan(since) else since

    @since.setter
    def since(self, since: float | None) -> None:
        self._node.since[self._place] = nan if since is None else since

    def put(self, at: float, value: int, hold: float) -> None:
        """Take what was seen up to ``at``."""
        for lane in (self.fine, self.coarse):
            if lane is not None:
                lane.put(at, value, hold)

    def lower(self, after: float, value: int) -> None:
        """What was seen after this time was less, as is known by now."""
        for lane in (self.fine, self.coarse):
            if lane is not None:
                lane.lower(after, value)

    def cells(self, end: float, step: float, count: int) -> list[int]:
        """``count`` cells of ``step`` seconds, the last of which ends at ``end``; ``UNSEEN`` where unknown."""
        fine, coarse = self.fine, self.coarse
        older = 0
        while older < count and (fine is None or not fine.reaches(end - (count - older) * step)):
            older += 1
        found = coarse.row(end - (count - older) * step, step, older) if older else []
        return found if fine is None or older == count else found + fine.row(end, step, count - older)

    def stopped(self, at: float) -> float | None:
        """Since when it stood still as of ``at``; None where it moved then, or nothing is known of it."""
        since, fine = self.since, self.fine
        if since is not None and since <= at:
            return since
        lane = fine if fine is not None and fine.reaches(at) else self.coarse
        return lane.last_over(0, at) if lane.value(floor(at / lane.seconds + 1e-9) - 1) == 0 else None


class NodeLanes:
    """The lanes of one node."""

    __slots__ = ("coarse", "fine", "keys", "since")

    def __init__(self, *, fine: bool = True) -> None:
        self.fine = LaneCells(1, 120) if fine else None
        self.coarse = LaneCells(10, 360) if fine else LaneCells(20, 180)
        self.keys: list[int] = []
        """What each place is of."""
        self.since = array("d")
        """Since when each has stood still; not a number while it moves."""

    def lanes(self, key: int) -> Lanes | None:
        """Those of one thing; None where nothing is known of it."""
        try:
            return Lanes(self, self.keys.index(key))
        except ValueError:
            return None

    def made(self, key: int) -> Lanes:
        """The same, new where there were none."""
        if key not in self.keys:
            for grid in (self.fine, self.coarse):
                if grid is not None:
                    grid.add()
            self.keys.append(key)
            self.since.append(nan)
        return Lanes(self, self.keys.index(key))

    def keep(self, keys: Container[int]) -> None:
        """Drop all but these."""
        for place in reversed(range(len(self.keys))):
            if self.keys[place] not in keys:
                for grid in (self.fine, self.coarse):
                    if grid is not None:
                        grid.drop(place)
                del self.keys[place], self.since[place]


class JobLanes(Mapping[Key, Lanes]):
    """Lanes of all ranks, or of all GPUs, by node and pid or index."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[str, NodeLanes] = {}

    def __getitem__(self, key: Key) -> Lanes:
        lanes = self.find(*key)
        if lanes is None:
            raise KeyError(key)
        return lanes

    def find(self, node: str, thing: int) -> Lanes | None:
        """Lanes of one thing of a node; None where nothing is known of it."""
        own = self._nodes.get(node)
        return None if own is None else own.lanes(thing)

    def __iter__(self) -> Iterator[Key]:
        return ((node, key) for node, own in self._nodes.items() for key in own.keys)

    def __len__(self) -> int:
        return sum(len(own.keys) for own in self._nodes.values())

    def made(self, node: str, thing: int, *, fine: bool) -> Lanes:
        """Lanes of one thing, new where there were none; a node's are all as ``fine`` as its first."""
        own = self._nodes.get(node)
        if own is None:
            own = self._nodes[node] = NodeLanes(fine=fine)
        return own.made(thing)

    def keep(self, there: Mapping[str, Container[int]]) -> None:
        """Drop what is not there any more."""
        for node in [*self._nodes]:
            if node in there:
                self._nodes[node].keep(there[node])
            else:
                del self._nodes[node]
