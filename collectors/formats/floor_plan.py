"""Where nodes hang, as one witness tells it: by their names, or by the LIDs of their ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectors.node.network import topology_conf
from collectors.samples.location import Location


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """What one witness says, and of whom."""

    by_name: Mapping[str, tuple[Location, ...]] = field(default_factory=dict)
    """By name of a node in lower case, as that witness calls it."""
    by_lid: Mapping[int, Location] = field(default_factory=dict)
    """By LID of a port of an HCA; without its device."""
    why: str = ""
    """Why nothing is known, for people; empty when something is."""

    def of(self, names: Iterable[str], ports: Iterable[tuple[str, int]]) -> tuple[Location, ...]:
        """Locations of the node that has these names and these (device, LID) of InfiniBand ports."""
        for name in names:
            for known in (name.lower(), name.lower().partition(".")[0]):
                if known in self.by_name:
                    return self.by_name[known]
        found = ((device, self.by_lid.get(lid)) for device, lid in ports)
        return tuple(place._replace(device=device) for device, place in found if place is not None)


def of_slurm(text: str, source: str) -> FloorPlan:
    """Of ``topology.conf`` or ``scontrol show topology``; empty where the text holds none."""
    return FloorPlan({name.lower(): places for name, places in topology_conf.read(text, source).items()})
