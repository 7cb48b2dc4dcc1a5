"""Slurm's picture of the network: ``topology.conf`` and what ``scontrol show topology`` prints.

Both are lines of ``Name=value`` words (topology.conf(5), scontrol(1) of Slurm 22.05 to 24.11): ``SwitchName=leaf1
Nodes=gpu[001-016]``, ``SwitchName=spine1 Switches=leaf[1-8]`` of a tree, ``BlockName=b1 Nodes=…`` of blocks. scontrol
adds a ``Level`` and lists of the nodes below a higher switch, which are not needed here.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Set, Tuple

from collectors.samples.location import Location

MOST = 200_000
"""Names of nodes and switches that are taken: a set such as ``[1-999999999]`` must not fill the memory."""
ABOVE = ("spine", "core")
"""Levels over the leaf."""

_WORD = re.compile(r"(\w{1,40})=(\S*)")
_PART = re.compile(r"\[([0-9,-]{1,4096})\]")
_COMMA = re.compile(r",(?![^\[]*\])")


def read(text: str, source: str) -> Dict[str, Tuple[Location, ...]]:
    """Locations by Slurm's name of each node; none where the text holds no topology."""
    below: Dict[str, List[str]] = {}
    parents: Dict[str, str] = {}
    blocks: Dict[str, List[str]] = {}
    room = [MOST]
    for line in text.splitlines():
        words = {key.lower(): value for key, value in _WORD.findall(line.partition("#")[0])}
        nodes, switches = words.get("nodes", ""), words.get("switches", "")
        if words.get("switchname") and switches not in ("", "(null)"):
            parents.update((child, words["switchname"]) for child in unfolded(switches, room))
        elif words.get("switchname"):
            below.setdefault(words["switchname"], []).extend(unfolded(nodes, room))
        elif words.get("blockname"):
            blocks.setdefault(words["blockname"], []).extend(unfolded(nodes, room))
    found: Dict[str, List[Location]] = {}
    for leaf, names in below.items():
        above = [Location("leaf", leaf, source), *_above(leaf, parents, source)]
        for name in names:
            found.setdefault(name, []).extend(above)
    for block, names in blocks.items():
        for name in names:
            found.setdefault(name, []).append(Location("block", block, source))
    return {name: tuple(dict.fromkeys(locations)) for name, locations in found.items()}


def _above(leaf: str, parents: Dict[str, str], source: str) -> Iterator[Location]:
    seen: Set[str] = set()
    switch = leaf
    for level in ABOVE:
        switch = parents.get(switch, "")
        if not switch or switch in seen:
            return
        seen.add(switch)
        yield Location(level, switch, source)


def unfolded(names: str, room: List[int]) -> Iterator[str]:
    """Names of a host list: ``gpu[001-003,7],login``. ``room`` holds how many more may be made, and is counted down."""
    for part in _COMMA.split(names):
        for name in _unfolded(part) if part and part != "(null)" else ():
            if room[0] <= 0:
                return
            room[0] -= 1
            yield name


def _unfolded(part: str) -> Iterator[str]:
    inner = _PART.search(part)
    if inner is None:
        yield part
        return
    head, tail = part[: inner.start()], part[inner.end() :]
    for piece in inner.group(1).split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not (first.isdigit() and last.isdigit()):
            continue
        for number in range(int(first), min(int(last), int(first) + MOST) + 1):
            for rest in _unfolded(tail):
                yield "%s%0*d%s" % (head, len(first), number, rest)
