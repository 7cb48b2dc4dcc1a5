"""Source ``software``: versions of drivers and libraries, without importing or running anything.

It publishes them to the sources ``ranks`` and ``host``. It is a source of its own because an environment may lie on a
file server that hangs.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from collectors.node.blocking import GuardedReader
from collectors.node.files import link, list_folder, read_named, read_or_none, read_text, text
from collectors.node.processes.rooted import foreign_root
from collectors.node.shared import Shared
from collectors.node.source import Source
from collectors.samples.ranks import RankProcess

# A line's first slash begins its path: one beginning a line, whatever the path repeats.
_TORCH_LIBRARY = re.compile(
    rb"^[^/\n]{0,120}(/[^ \n][^\n]{0,1000}?/torch)/lib/lib(?:torch_python|torch_cpu|torch|c10)\.so", re.M
)
_NCCL_LIBRARY = re.compile(rb"^[^/\n]{0,120}(/[^ \n][^\n]{0,1000}?/libnccl\.so[0-9.]*)", re.M)
_TORCH_VERSION = re.compile(r"^__version__\s*(?::\s*\w+\s*)?=\s*['\"]([^'\"\n]{1,100})", re.M)
_CUDA_VERSION = re.compile(r"^cuda\s*(?::[^=\n]*)?=\s*['\"]([^'\"\n]{1,100})", re.M)
_NCCL_FOLDER = re.compile(r"nvidia_nccl_cu\d+-([0-9.]+)\.dist-info")
_NCCL_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib")
PATIENCE = 300.0
"""Longest pause between looks at a rank that has not loaded torch; the pauses double from the period on."""

HOST_EVERY = 600.0
"""Seconds between looks at what is installed on the host."""


class SoftwareSource(Source):
    """Versions of what the ranks and the host run on."""

    name = "software"
    period = 3.0
    deadline = 20.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", root: str = "") -> None:
        super().__init__(shared, proc, sys)
        self._root = root
        self._reader = GuardedReader()
        self._again: Dict[int, Tuple[float, float]] = {}
        """Pid → when to look again (monotonic clock), and the pause after that."""
        self._by_folder: Dict[Tuple[str, str], Dict[str, str]] = {}
        self._host_at = float("-inf")

    def look(self, _now: float) -> Iterable[NamedTuple]:
        """Publish versions; sends nothing by itself."""
        ranks, moment = self.shared.ranks, time.monotonic()
        if moment >= self._host_at:
            self._host_at = moment + HOST_EVERY
            self.shared.host_versions = self._host()
        known = {rank.pid: self.shared.versions[rank.pid] for rank in ranks if rank.pid in self.shared.versions}
        for rank in ranks:
            again, pause = self._again.get(rank.pid, (moment, self.period))
            if rank.pid in known or moment < again:
                continue
            self._again[rank.pid] = (moment + pause, min(pause * 2, PATIENCE))
            found = self._of_rank(rank)
            if found:
                known[rank.pid] = found
        self._again = {rank.pid: self._again[rank.pid] for rank in ranks if rank.pid in self._again}
        self.shared.versions = known
        return ()

    def _of_rank(self, rank: RankProcess) -> Dict[str, str]:
        """Versions by the libraries that a process has mapped."""
        base = "%s/%d" % (self.proc, rank.pid)
        maps = self._reader.read_all([base + "/maps"]).get(base + "/maps")
        root = foreign_root(rank.pid, self.proc) or self._root
        torch, nccl = libraries(maps) if isinstance(maps, bytes) else (None, None)
        if torch is None:
            return {}
        key = (root + torch, nccl or "")
        if key not in self._by_folder:
            self._by_folder[key] = torch_versions(root, torch, nccl, rank.uid)
        return self._by_folder[key]

    def _host(self) -> Dict[str, str]:
        """Versions of drivers and of libraries installed for everybody."""
        root = self._root
        driver = _DRIVER.search(read_text(self.proc + "/driver/nvidia/version"))
        found = {
            "nvidia": driver.group(1) if driver else read_text(self.sys + "/module/nvidia/version"),
            "ofed": read_text(self.sys + "/module/mlx5_core/version"),
            "cuda": cuda_toolkit(read_or_none(root + "/usr/local/cuda/version.json") or b""),
            "nccl": _newest(name for folder in _LIBRARY_FOLDERS for name in list_folder(root + folder)),
        }
        return {name: version for name, version in found.items() if version}


def libraries(maps: bytes) -> Tuple[Optional[str], Optional[str]]:
    """Folder of torch, and file of NCCL, that /proc/PID/maps shows; None for what is not loaded."""
    torch, nccl = _TORCH_LIBRARY.search(maps), _NCCL_LIBRARY.search(maps)
    return (text(torch.group(1)) if torch else None, text(nccl.group(1)) if nccl else None)


def torch_versions(root: str, torch: str, nccl: Optional[str], uid: int) -> Dict[str, str]:
    """Versions that torch's own folder tells, and the NCCL beside it; ``root`` goes before every path.

    The folder is the choice of the rank's user, ``uid``.
    """
    said = text(read_named("%s%s/version.py" % (root, torch), uid) or b"")
    version, cuda = _TORCH_VERSION.search(said), _CUDA_VERSION.search(said)
    found = {"torch": version.group(1) if version else "", "cuda": cuda.group(1) if cuda else ""}
    site = os.path.dirname(torch)
    beside = nccl is None or nccl.startswith(site + "/")
    folders = [_NCCL_FOLDER.match(name) for name in list_folder(root + site)] if beside else []
    package = [folder.group(1) for folder in folders if folder]
    if package:
        found["nccl"] = package[0]
    elif nccl is not None:
        found["nccl"] = _newest([nccl, os.path.basename(link(root + nccl))])
    return {name: value for name, value in found.items() if value}


def cuda_toolkit(version_json: bytes) -> str:
    """Version of the CUDA toolkit by its version.json; empty when it tells none."""
    try:
        document = json.loads(version_json)
        return str(document["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        return ""


def _newest(names: "Iterable[str]") -> str:
    """Newest full version among the file names of NCCL's library."""
    versions: List[List[int]] = []
    for name in names:
        found = _NCCL_FILE.search(name)
        if found:
            versions.append([int(part) for part in found.group(1).split(".")])
    return ".".join(str(part) for part in max(versions)) if versions else ""
