"""Racks, leaves and hosts of the job's nodes: put to the nodes as their names become known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collectors.fleet.clean import clean
from collectors.fleet.targets.chosen import TargetError
from collectors.formats.slurm_topology import NodeLocations, read
from collectors.samples.location import Location
from hangtop.session.state.job_state import JobState, NodeState

MOST_BYTES = 64 << 20


class Locator:
    """Tells each node's locations once, and again when it is known by more names than before."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._known: list[NodeLocations] = []
        self._asked: dict[str, tuple[object, ...]] = {}

    def learn(self, locations: NodeLocations) -> None:
        """Take locations; of the same nodes, in the place of those before."""
        if not locations.by_name:
            return
        self._known = [*(one for one in self._known if one.by_name.keys() != locations.by_name.keys()), locations]
        self._asked.clear()

    def news(self) -> Iterator[tuple[str, list[Location]]]:
        """Nodes with their locations."""
        if not self._known:
            return
        for name, node in self._state.nodes.items():
            known = (node.roster, node.hello)  # the roster moves when a rank comes
            if self._asked.get(name) == known:
                continue
            self._asked[name] = known
            names = _names(node)
            if found := [place for locations in self._known for place in locations.of(names)]:
                yield name, found


def _names(node: NodeState) -> tuple[str, ...]:
    """What the node is called, by its user first: a cluster's own name for it may be another."""
    hostname = node.hello.hostname if node.hello is not None else ""
    host = node.name.rpartition("@")[2]
    own = {rank.process.env.get("SLURMD_NODENAME", "") for rank in node.ranks.values()}
    return tuple(dict.fromkeys(filter(None, (*sorted(own), hostname, host))))


def read_topology(path: Path) -> NodeLocations:
    """What a file says. Raises :class:`TargetError`."""
    try:
        with path.open("rb") as file:
            text = clean(file.read(MOST_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise TargetError(f"{path}: cannot be read: {error.strerror}") from None
    found = read(text, path.name)
    if not found.by_name:
        raise TargetError(f"{path}: is neither a topology.conf of Slurm nor what scontrol show topology prints")
    return found
