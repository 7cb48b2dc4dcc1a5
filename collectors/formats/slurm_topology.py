"""Slurm's network topology: ``topology.conf``, and what ``scontrol show topology`` prints.

Both are lines of ``Name=value`` words (topology.conf(5), scontrol(1) of Slurm 22.05 to 24.11): ``SwitchName=leaf1
Nodes=gpu[001-016]``, ``SwitchName=spine1 Switches=leaf[1-8]`` of a tree, ``BlockName=b1 Nodes=…`` of blocks. scontrol
adds a ``Level`` and lists of the nodes below a higher switch, which are not needed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ClusterShell.NodeSet import NodeSet, NodeSetException

from collectors.samples.location import Location

MOST = 200_000
"""Names of one range that are taken: a set such as ``[1-999999999]`` must not fill the memory."""
ABOVE = ("spine", "core")
"""Levels over the leaf."""

_WORD = re.compile(r"(\w{1,40})=(\S*)")
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class NodeLocations:
    """Locations of nodes."""

    by_name: Mapping[str, tuple[Location, ...]] = field(default_factory=dict)
    """By name of a node in lower case."""
    why: str = ""
    """Why nothing is known, for people; empty when something is."""

    def of(self, names: Iterable[str]) -> tuple[Location, ...]:
        """Locations of the node that has these names."""
        for name in names:
            for known in (name.lower(), name.lower().partition(".")[0]):
                if known in self.by_name:
                    return self.by_name[known]
        return ()


def read(text: str, source: str) -> NodeLocations:
    """Locations by Slurm's name of each node; none where the text holds no topology."""
    parents: dict[str, str] = {}
    leaves: dict[str, str] = {}
    found: dict[str, list[Location]] = {}
    for line in text.splitlines():
        words = {key.lower(): value for key, value in _WORD.findall(line.partition("#")[0])}
        switch, switches, nodes = words.get("switchname", ""), words.get("switches", ""), words.get("nodes", "")
        if switch and switches not in ("", "(null)"):
            parents.update((child, switch) for child in _names(switches))
        elif switch:
            leaves.update((node.lower(), switch) for node in _names(nodes))
        elif block := words.get("blockname", ""):
            for node in _names(nodes):
                found.setdefault(node.lower(), []).append(Location("block", block, source))
    for node, leaf in leaves.items():
        found[node] = [Location("leaf", leaf, source), *_above(leaf, parents, source), *found.get(node, ())]
    return NodeLocations({name: tuple(places) for name, places in found.items()})


def _above(leaf: str, parents: Mapping[str, str], source: str) -> Iterator[Location]:
    switch = leaf
    for level in ABOVE:
        switch = parents.get(switch, "")
        if switch:
            yield Location(level, switch, source)


def _names(folded: str) -> Iterator[str]:
    """Names of a host list: ``gpu[001-003,7],login``."""
    if folded in ("", "(null)") or any(int(last) - int(first) > MOST for first, last in _RANGE.findall(folded)):
        return
    try:
        yield from NodeSet(folded)
    except NodeSetException:
        return
