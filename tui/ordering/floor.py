"""Nodes in groups of neighbours: by what they hang at, where somebody knows it, else by the pattern of their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hangtop.diagnosis.places import BY_NAME, by_level
from hangtop.session.state.job_state import NodeState
from tui.ordering.order import natural

LEVELS = ("leaf", "rack", "NVLink domain", "block", "spine", "core", "zone", "host")
"""What groups are made by, the likeliest to break together first."""
LEAST = 2
"""Nodes of a group, on the average, from which on groups tell more than names in a row."""
ELSEWHERE = "elsewhere"
"""Name of the group of nodes of which nobody knows where they hang."""
_NUMBERED = re.compile(r"^(.*?\D)\d{1,9}\D{0,12}$")


class Bay(NamedTuple):
    """Nodes that hang at one thing."""

    name: str
    members: tuple[int, ...]
    """Their places among all nodes, in that order."""


class Floor(NamedTuple):
    """One way to group all nodes."""

    level: str
    source: str
    """Who says so, for people."""
    bays: tuple[Bay, ...]


def floors(nodes: Sequence[NodeState]) -> list[Floor]:
    """Ways to group these nodes, the most telling first; none where neither witnesses nor names part them."""
    known = by_level({node.name: tuple(node.locations.values()) for node in nodes})
    found = []
    for level in sorted(known, key=LEVELS.index):
        shelves = known[level]
        names = {node.name: _thing(level, shelves[node.name].names) for node in nodes if node.name in shelves}
        sources = sorted({shelf.source for shelf in shelves.values()})
        found.append(_floor(nodes, names, level, " and ".join(sources)))
    if not known:
        names = {node.name: begin for node in nodes if (begin := _beginning(node.name))}
        found.append(_floor(nodes, names, "name", BY_NAME))
    return [floor for floor in found if _tells(floor, len(nodes))]


def _tells(floor: Floor, nodes: int) -> bool:
    return len(floor.bays) > 1 and nodes >= LEAST * len(floor.bays)


def _floor(nodes: Sequence[NodeState], names: Mapping[str, str], level: str, source: str) -> Floor:
    members: dict[str, list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        members[names.get(node.name, "")].append(place)
    order: list[str] = sorted(filter(None, members), key=natural)
    bays = [Bay(name, tuple(members[name])) for name in order]
    if "" in members:
        bays.append(Bay(ELSEWHERE, tuple(members[""])))
    return Floor(level, source, tuple(bays))


def _thing(level: str, names: Iterable[str]) -> str:
    """One name for what may be several, a leaf for each rail; a mere number says of what."""
    first, *others = sorted(names, key=natural)
    name = f"{level} {first}" if first.isdigit() else first
    return f"{name}+{len(others)}" if others else name


def _beginning(name: str) -> str:
    """What comes before the last number of a host's own name: of ``gpu-b07-n3`` it is ``gpu-b07-n``."""
    host = name.rpartition("@")[2].partition(".")[0]
    found = _NUMBERED.match(host)
    return found[1].rstrip("-_n") or found[1] if found else ""


class Floors:
    """The same, worked out anew when nodes come or more is known of where they hang."""

    def __init__(self) -> None:
        self._nodes: Sequence[NodeState] = ()
        self._known = (0, 0)
        self.found: list[Floor] = []

    def turn(self, nodes: Sequence[NodeState]) -> list[Floor]:
        """Ways to group these nodes, as :func:`floors`; the same list while nothing changed."""
        known = len(nodes), sum([len(node.locations) for node in nodes])
        if nodes is not self._nodes or known != self._known:
            self._nodes, self._known = nodes, known
            self.found = floors(nodes)
        return self.found
