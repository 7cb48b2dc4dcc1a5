"""Source ``disks``: free space on the file systems that the job uses.

Separate from source ``host``, because statvfs hangs on a file system whose server is gone.
"""

from __future__ import annotations

import os
import time
from typing import Iterator, List, NamedTuple, Tuple

from collectors.node.blocking import BlockingGuard
from collectors.node.processes.mounts import Mounts
from collectors.node.processes.namespaces import foreign_root
from collectors.node.source import NotResponding, Shared, Source
from collectors.samples.host import Reading

EVERY = 30.0
"""Seconds between reads of the same places."""
PLACES = 24
"""File systems that are read at most."""


class DiskSource(Source):
    """Temporary folders, shared memory and working folders."""

    name = "disks"
    period = 3.0
    deadline = 15.0
    retry = 3.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._guard = BlockingGuard()
        self._seen: List[Tuple[str, str]] = []
        self._next = 0.0
        self._mounts = Mounts(self.proc)

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """One sample per place. Raises :class:`NotResponding` for places that hang, after yielding all others."""
        places, moment = self._places(), time.monotonic()
        if places != self._seen or moment >= self._next:
            self._seen, self._next = places, moment + EVERY
            for path, role in sorted(places, key=lambda place: self._mounts.of(place[0], moment).shared != ""):
                status = self._guard.ask([path], os.statvfs).get(path)
                if isinstance(status, os.statvfs_result) and status.f_blocks:
                    size = status.f_frsize
                    free, total = status.f_bavail * size, status.f_blocks * size
                    yield Reading(self.name, path, {"role": role, "free": free, "total": total})
        stuck = sorted(self._guard.stuck)
        if stuck:
            raise NotResponding(", ".join("%s (%s)" % (path, self._mounts.of(path, moment).source) for path in stuck))

    def _places(self) -> List[Tuple[str, str]]:
        """Paths and roles, without duplicates."""
        found = [("/tmp", "tmp"), ("/dev/shm", "shm")]
        for rank in self.shared.ranks:
            root = foreign_root(rank.pid, self.proc)
            if root:
                found += [(root + "/tmp", "tmp"), (root + "/dev/shm", "shm")]
            if rank.cwd.startswith("/"):
                found.append((root + rank.cwd, "cwd"))
        return list(dict.fromkeys(found))[:PLACES]
