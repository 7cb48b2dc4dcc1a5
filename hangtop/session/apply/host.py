"""The host under the ranks."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.samples.host import Disk, HostFacts, HostSample
from collectors.samples.location import Location
from hangtop.session.apply.kit import Applier, Here


def facts(here: Here, sample: HostFacts) -> None:
    """What does not move."""
    here.node.host = sample


def load(here: Here, sample: HostSample) -> None:
    """What moves."""
    here.node.load = sample


def disk(here: Here, sample: Disk) -> None:
    """A file system that the job writes to."""
    here.node.disks[sample.path] = sample


MOST_LOCATIONS = 256
"""Of one node: several levels of each of its HCAs."""


def location(here: Here, sample: Location) -> None:
    """Where it hangs, by one witness."""
    known, key = here.node.locations, (sample.source, sample.level)
    if key in known or len(known) < MOST_LOCATIONS:
        known[key] = sample


APPLIERS: Mapping[type, Applier] = {HostFacts: facts, HostSample: load, Disk: disk, Location: location}
