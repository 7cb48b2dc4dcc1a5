"""Leaf, rack or block of each node: what the nodes of a finding share, and the order in which nodes are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from collectors.samples.location import LEVELS, Location
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.tables.kinds import word_of

SURER = ("scontrol", "kubectl")
"""Of two sources of one level the first counts; a file that the user names comes before both."""
LARGEST_SHARE = 3 / 4
"""Ours: with more devices than this share of the nodes an order by them tells nothing."""


@dataclass(frozen=True, slots=True)
class NetworkDevice:
    """What a node hangs at on one level: one switch or rack, or several."""

    names: frozenset[str]
    source: str


def device_of(locations: Collection[Location], level: str) -> NetworkDevice | None:
    """What the surest source says of one level."""
    of_level = [place for place in locations if place.level == level]
    if not of_level:
        return None
    source = min(
        {place.source for place in of_level}, key=lambda name: (SURER.index(name) + 1 if name in SURER else 0, name)
    )
    return NetworkDevice(frozenset(place.name for place in of_level if place.source == source), source)


def devices_by_level(job: Job) -> Mapping[str, Mapping[str, NetworkDevice]]:
    """By level, from the narrowest on, the device of each node of which it is known."""
    return job.once(_devices_by_level)


def _devices_by_level(job: Job) -> Mapping[str, Mapping[str, NetworkDevice]]:
    levels = {}
    for level in LEVELS:
        found = {name: device_of(node.locations, level) for name, node in job.nodes.items() if node.locations}
        if known := {name: device for name, device in found.items() if device is not None}:
            levels[level] = known
    return levels


# --- the order of nodes ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Nodes by the device that they hang at; by their names where none is known that parts them."""

    level: str = ""
    source: str = ""
    homes: Mapping[str, str] = field(default_factory=dict)
    """The device of each node."""

    def key(self, node: str) -> tuple[bool, str, str]:
        """To sort nodes by: those of one device together, those whose place is not known last."""
        home = self.homes.get(node, "")
        return (not home and bool(self.homes), home, node)


BY_NAME = Arrangement()


def arrangement(job: Job, nodes: Collection[str]) -> Arrangement:
    """By the narrowest level on which some of these nodes are together and others not."""
    for level, devices in devices_by_level(job).items():
        own = {name: device for name, device in devices.items() if name in nodes}
        homes = {name: "+".join(sorted(device.names)) for name, device in own.items()}
        if 1 < len(set(homes.values())) <= LARGEST_SHARE * len(nodes):
            return Arrangement(level, next(iter(own.values())).source, homes)
    return BY_NAME


# --- what the nodes of a finding share ---------------------------------------------------------------------------


def with_shared_device(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings; the first of each kind says which device all nodes of that kind hang at, and others do not.

    What all nodes of the job share explains nothing, and is not said.
    """
    found = list(findings)
    nodes_of: dict[str, set[str]] = defaultdict(set)
    first: dict[str, int] = {}
    for place, finding in enumerate(found):
        if finding.severity != "info" and word_of(finding.kind) != "none" and not finding.cause:
            nodes_of[finding.kind].update(finding.nodes)
            first.setdefault(finding.kind, place)
    for kind, nodes in nodes_of.items():
        if len(nodes) > 1 and (shared := _shared(job, nodes)):
            place = first[kind]
            summary, proof = f"{found[place].summary}; {shared.text}", (*found[place].evidence, shared)
            found[place] = replace(found[place], summary=summary, evidence=proof)
    return tuple(found)


def _shared(job: Job, nodes: Collection[str]) -> Evidence | None:
    """The narrowest device at which all these nodes hang and others of the job do not."""
    for level, devices in devices_by_level(job).items():
        if not all(node in devices for node in nodes):
            continue
        names = frozenset.intersection(*(devices[node].names for node in nodes))
        others = [device for node, device in devices.items() if node not in nodes]
        beside = sum(bool(device.names & names) for device in others)
        if names and beside < len(others):
            too = f", as {count(beside, 'other')} of the job" if beside else ""
            source = " and ".join(sorted({devices[node].source for node in nodes}))
            text = f"all {len(nodes)} nodes hang at {level} {listed(sorted(names))}{too}"
            return Evidence(f"topology by {source}", None, text)
    return None
