"""Where each node hangs: by witnesses, else, as a hint and no more, by a pattern of the nodes' names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from collectors.samples.location import LEVELS, Location
from hangtop.diagnosis.job import Job

BY_NAME = "node names"
"""Source of what is only guessed."""
SURER = ("scontrol", "topology.conf", "ibnetdiscover", "kubectl")
"""Of two witnesses of one level the first counts; a file that the user names comes before all."""
_RACK = re.compile(r"(?<![a-z0-9])(?:rack|r|su)[-_]?0{0,8}(\d{1,6})(?=[a-z_-]{1,12}\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a node hangs at on one level: one leaf, or one for each of its rails."""

    names: frozenset[str]
    source: str


def shelf(locations: Collection[Location], level: str, device: str = "") -> Shelf | None:
    """What the surest witness says of one level; with a device, of that HCA where it is told apart."""
    of_level = [place for place in locations if place.level == level]
    if device:
        of_level = [place for place in of_level if place.device in (device, "")]
    if not of_level:
        return None
    source = min((place.source for place in of_level), key=_order)
    said = [place for place in of_level if place.source == source]
    own = [place for place in said if place.device] if device else said
    return Shelf(frozenset(place.name for place in own or said), source)


def places(job: Job) -> Mapping[str, Mapping[str, Shelf]]:
    """By level, from the narrowest on, the nodes of which it is known; worked out once for a picture."""
    return job.once(_places)


def _places(job: Job) -> Mapping[str, Mapping[str, Shelf]]:
    by_level: dict[str, dict[str, Shelf]] = {}
    for level in LEVELS:
        found = {name: shelf(node.locations, level) for name, node in job.nodes.items() if node.locations}
        if known := {name: place for name, place in found.items() if place is not None}:
            by_level[level] = known
    return by_level or _by_name(job)


def _by_name(job: Job) -> Mapping[str, Mapping[str, Shelf]]:
    racks = {name: found[1] for name in job.nodes if (found := _RACK.search(name))}
    if len(racks) < max(2, len(job.nodes)):
        return {}
    return {"rack": {name: Shelf(frozenset((number,)), BY_NAME) for name, number in racks.items()}}


def _order(source: str) -> tuple[int, str]:
    return (SURER.index(source) + 1 if source in SURER else 0), source
