"""In which order nodes are shown beside one another: by where they hang in the building, as far as that is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from collectors.samples.location import LEVELS
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.places import places

MOST = 3 / 4
"""Ours: with more shelves than this share of the nodes an order by them tells nothing."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Nodes by the device that they hang at."""

    level: str = ""
    """``leaf``, ``rack`` …; empty where none is known that parts the nodes."""
    source: str = ""
    homes: Mapping[str, str] = field(default_factory=dict)
    """The device of each node."""

    def key(self, node: str) -> tuple[bool, str, str]:
        """To sort nodes by: those of one device together, those whose place is not known last."""
        home = self.homes.get(node, "")
        return (not home and bool(self.homes), home, node)


BY_NAME = Arrangement()
"""In the order of their names."""


def arrangement(job: Job, nodes: Collection[str]) -> Arrangement:
    """By the narrowest level on which some of these nodes are together and others not."""
    known = places(job)
    for level in LEVELS:
        shelves = {name: shelf for name, shelf in known.get(level, {}).items() if name in nodes}
        homes = {name: "+".join(sorted(shelf.names)) for name, shelf in shelves.items()}
        if 1 < len(set(homes.values())) <= MOST * len(nodes):
            return Arrangement(level, next(iter(shelves.values())).source, homes)
    return BY_NAME
