"""The host under the ranks."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.samples.host import Disk, HostFacts, HostSample
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


APPLIERS: Mapping[type, Applier] = {HostFacts: facts, HostSample: load, Disk: disk}
