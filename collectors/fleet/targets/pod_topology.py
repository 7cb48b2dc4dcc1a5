"""Which Kubernetes node each pod runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from collectors.formats.slurm_topology import NodeLocations
from collectors.samples.location import HOST, Location

SOURCE = "kubectl"
EVERY = 15.0
"""Seconds between two looks at whether a pod was made anew on another node."""


async def keep_telling(hosts: Callable[[], Mapping[str, str]], tell: Callable[[NodeLocations], None]) -> None:
    """Tell where the pods run, now and whenever one has come to run elsewhere; ``hosts`` is :attr:`Kubectl.hosts`."""
    told: Mapping[str, str] = {}
    while True:
        now = hosts()
        if now and now != told:
            told = dict(now)
            tell(NodeLocations({pod.lower(): (Location(HOST, host, SOURCE),) for pod, host in now.items()}))
        await asyncio.sleep(EVERY)
