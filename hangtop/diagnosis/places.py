"""Rack, leaf or block of each node: by Slurm's topology, else, as a hint and no more, by a pattern of the names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from collectors.samples.location import LEVELS, Location
from hangtop.diagnosis.job import Job

BY_NAME = "node names"
"""Source of what is only guessed."""
SURER = ("scontrol", "kubectl")
"""Of two sources of one level the first counts; a file that the user names comes before both."""
_RACK = re.compile(r"(?<![a-z0-9])(?:rack|r|su)[-_]?0{0,8}(\d{1,6})(?=[a-z_-]{1,12}\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a node hangs at on one level."""

    names: frozenset[str]
    source: str


def shelf(locations: Collection[Location], level: str) -> Shelf | None:
    """What the surest source says of one level."""
    of_level = [place for place in locations if place.level == level]
    if not of_level:
        return None
    source = min((place.source for place in of_level), key=_order)
    return Shelf(frozenset(place.name for place in of_level if place.source == source), source)


def places(job: Job) -> Mapping[str, Mapping[str, Shelf]]:
    """By level, from the narrowest on, the nodes of which it is known; worked out once for a picture."""
    return job.once(_places)


def _places(job: Job) -> Mapping[str, Mapping[str, Shelf]]:
    return by_level({name: node.locations for name, node in job.nodes.items()})


def by_level(located: Mapping[str, Collection[Location]]) -> Mapping[str, Mapping[str, Shelf]]:
    """The same of nodes by name, each with what witnesses say of it; where none says anything, by the names."""
    levels: dict[str, dict[str, Shelf]] = {}
    for level in LEVELS:
        found = {name: shelf(said, level) for name, said in located.items() if said}
        if known := {name: place for name, place in found.items() if place is not None}:
            levels[level] = known
    return levels or _by_name(located)


def _by_name(names: Collection[str]) -> Mapping[str, Mapping[str, Shelf]]:
    racks = {name: found[1] for name in names if (found := _RACK.search(name))}
    if len(racks) < max(2, len(names)):
        return {}
    return {"rack": {name: Shelf(frozenset((number,)), BY_NAME) for name, number in racks.items()}}


def _order(source: str) -> tuple[int, str]:
    return (SURER.index(source) + 1 if source in SURER else 0), source
