"""Source ``disks``: room on the file systems that the job writes to.

Apart from the host's other figures, because asking for the size of a file system whose server is gone hangs.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from typing import Iterator, List, NamedTuple, Tuple

from collectors.node.blocking import BlockingGuard
from collectors.node.processes.mounts import Mounts
from collectors.node.processes.namespaces import foreign_root
from collectors.node.source import NotResponding, Shared, Source
from collectors.samples.host import Disk
from collectors.samples.ranks import RankProcess

_SAVES = re.compile(r"(?i)^(?=--?[\w.-]{0,80}?(?:ckpt|checkpoint|save|output))[\w.-]+(?:=(.+))?$")
EVERY = 30.0
"""Seconds between looks at the same places."""
PLACES = 24
"""File systems that are asked at most."""


class DiskSource(Source):
    """Temporary folders, shared memory, working folders and the folders that checkpoints go to."""

    name = "disks"
    period = 3.0
    deadline = 15.0
    retry = 3.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._guard: BlockingGuard[os.statvfs_result] = BlockingGuard(2.0)
        self._seen: List[Tuple[str, str]] = []
        self._next = 0.0
        self._mounts = Mounts(self.proc)

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """One sample per place. Raises :class:`NotResponding`, after all others have been told, for one that hangs."""
        places, moment = self._places(), time.monotonic()
        if places != self._seen or moment >= self._next:
            self._seen, self._next = places, moment + EVERY
            self._mounts.read()
            for path, role in sorted(places, key=lambda place: self._mounts.known(place[0]).remote):
                status = self._guard.ask({path: lambda path=path: room(path)}).get(path)  # type: ignore[misc]
                if isinstance(status, os.statvfs_result) and status.f_blocks:
                    yield Disk(
                        path=path,
                        role=role,
                        fstype=self._mounts.known(path).kind,
                        total=status.f_blocks * status.f_frsize,
                        free=status.f_bavail * status.f_frsize,
                        free_inodes=status.f_favail if status.f_files else None,
                    )
        stuck = sorted(self._guard.stuck)
        if stuck:
            raise NotResponding(", ".join("%s (%s)" % (path, self._mounts.known(path).source) for path in stuck))

    def _places(self) -> List[Tuple[str, str]]:
        """Paths and roles, each once."""
        found = [("/tmp", "tmp"), ("/dev/shm", "shm")]
        for rank in self.shared.ranks:
            root = foreign_root(rank.pid, self.proc)
            if root:
                found += [(root + "/tmp", "tmp"), (root + "/dev/shm", "shm")]
            if rank.cwd.startswith("/"):
                found.append((root + rank.cwd, "cwd"))
                found += [(root + path, "checkpoint") for path in checkpoint_folders(rank)]
        return list(dict.fromkeys(found))[:PLACES]


def room(path: str) -> os.statvfs_result:
    """Room at a path, or where it will be made: a checkpoint folder is often named before it exists."""
    while True:
        try:
            return os.statvfs(path)
        except FileNotFoundError:
            if path in ("/", ""):
                raise
            path = posixpath.dirname(path)


def checkpoint_folders(rank: RankProcess) -> List[str]:
    """Folders that a command line names for saving: ``--output_dir X``, ``--save-dir=X``."""
    words = rank.command.split(" ")
    folders: List[str] = []
    for word, after in zip(words, [*words[1:], ""]):
        found = _SAVES.match(word)
        value = (found.group(1) or after) if found else ""
        if "/" in value and "://" not in value and not value.startswith("-"):
            folders.append(posixpath.normpath(posixpath.join(rank.cwd, value)))
    return folders
