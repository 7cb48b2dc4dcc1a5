"""Source ``software``: versions of torch, CUDA and NCCL that the ranks have loaded, without running any program.

The versions go to the source ``ranks``. This is a separate source because a Python environment may be on a file server
that hangs.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, Iterable, NamedTuple, Optional, Tuple

from collectors.node.blocking import BlockingGuard
from collectors.node.files import link, list_folder, read_named, text
from collectors.node.processes.namespaces import foreign_root
from collectors.node.source import Shared, Source
from collectors.samples.ranks import RankProcess

# The path begins at a line's first slash; each pattern has one start per line, even if the path repeats itself.
_TORCH_LIBRARY = re.compile(
    rb"^[^/\n]{0,120}(/[^ \n][^\n]{0,1000}?/torch)/lib/lib(?:torch_python|torch_cpu|torch|c10)\.so", re.M
)
_NCCL_LIBRARY = re.compile(rb"^[^/\n]{0,120}(/[^ \n][^\n]{0,1000}?/libnccl\.so[0-9.]*)", re.M)
_VERSIONS = (
    ("torch", re.compile(r"^__version__\s*(?::\s*\w+\s*)?=\s*['\"]([^'\"\n]{1,100})", re.M)),
    ("cuda", re.compile(r"^cuda\s*(?::[^=\n]*)?=\s*['\"]([^'\"\n]{1,100})", re.M)),
)
"""In torch's version.py."""
_NCCL_FOLDER = re.compile(r"nvidia_nccl_cu\d+-([0-9.]+)\.dist-info")
_NCCL_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")
PAUSE = 30.0
"""Seconds between reads of a rank that has not loaded torch yet."""


class SoftwareSource(Source):
    """Versions of the ranks' libraries."""

    name = "software"
    period = 3.0
    deadline = 20.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", root: str = "") -> None:
        super().__init__(shared, proc, sys)
        self._root = root
        self._guard = BlockingGuard()
        self._again: Dict[int, float] = {}
        """Pid → time of the next read (monotonic clock)."""

    def read(self, _now: float) -> Iterable[NamedTuple]:
        """Publish versions in :class:`Shared`; yields no samples."""
        moment, ranks = time.monotonic(), {rank.pid: rank for rank in self.shared.ranks}
        known = {pid: versions for pid, versions in self.shared.versions.items() if pid in ranks}
        self._again = {pid: again for pid, again in self._again.items() if pid in ranks}
        for pid, rank in ranks.items():
            if pid not in known and moment >= self._again.get(pid, moment):
                self._again[pid] = moment + (PAUSE if pid in self._again else self.period)
                found = self._of_rank(rank)
                if found:
                    known[pid] = found
        self.shared.versions = known
        return ()

    def _of_rank(self, rank: RankProcess) -> Dict[str, str]:
        """Versions of the libraries that a process has mapped."""
        torch, nccl = libraries(self._guard.read("%s/%d/maps" % (self.proc, rank.pid)) or b"")
        root = foreign_root(rank.pid, self.proc) or self._root
        return {} if torch is None else torch_versions(root, torch, nccl, rank.uid)


def libraries(maps: bytes) -> Tuple[Optional[str], Optional[str]]:
    """Folder of torch and file of NCCL in /proc/PID/maps; None for a library that is not loaded."""
    torch, nccl = _TORCH_LIBRARY.search(maps), _NCCL_LIBRARY.search(maps)
    return (text(torch.group(1)) if torch else None, text(nccl.group(1)) if nccl else None)


def torch_versions(root: str, torch: str, nccl: Optional[str], uid: int) -> Dict[str, str]:
    """Versions from torch's own folder, and of the NCCL package next to it; ``root`` is prepended to every path.

    The rank's user, ``uid``, controls the folder: only files that this user may read are read.
    """
    said = text(read_named("%s%s/version.py" % (root, torch), uid) or b"")
    versions = {name: match.group(1) for name, pattern in _VERSIONS for match in [pattern.search(said)] if match}
    site = os.path.dirname(torch)
    beside = nccl is None or nccl.startswith(site + "/")
    packages = [_NCCL_FOLDER.match(name) for name in list_folder(root + site)] if beside else []
    file = _NCCL_FILE.search("%s %s" % (nccl, link(root + nccl))) if nccl is not None else None
    version = next((found.group(1) for found in [*packages, file] if found), "")
    return {**versions, "nccl": version} if version else versions
