"""What is behind a rank's pipe: the file of whoever reads it (``tee``, slurmstepd, conmon, a launcher).

A reader may hold the pipe under any number, and hand on what it reads through a pipe or FIFO of its own, as
containerd's shim does: that is followed, too. Docker and containerd write a log for each container under its id.
"""

from __future__ import annotations

import glob
import os
import stat
from typing import Dict, Iterator, List, Set, Tuple

from collectors.node import files
from collectors.node import late_re as re
from collectors.node.processes.procfs import read_stat
from collectors.node.processes.rooted import seen_by

SEARCH = 20.0
"""Seconds between two searches for who reads a pipe."""
HOPS = 3
"""Pipes that are followed one after another."""
READERS = 512
"""Processes that are looked at with all their descriptors."""
CARRIERS = (
    "tee", "slurmstepd", "slurmd", "srun", "conmon", "containerd-shim", "enroot", "apptainer",
    "singularity", "mpirun", "mpiexec", "hydra_pmi_proxy", "orted", "prted", "logger", "rotatelogs",
    "multilog", "svlogd", "cat", "ts", "stdbuf", "awk",
)  # fmt: skip
"""Programs that carry others' output; their names as the kernel has them, cut to 15 characters.

No daemon that writes the logs of all containers: which of them is this rank's, its descriptors do not tell."""
CONTAINER_LOGS = (
    "/var/lib/docker/containers/{0}/{0}-json.log",
    "/var/log/containers/*-{0}.log",
    "/var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
    "/home/*/.local/share/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""Where the runtimes keep what a container prints: docker's json-file, the kubelet's links, podman's k8s-file."""

_CONTAINER = re.compile(r"[0-9a-f]{64}\Z")
_READ_ONLY = os.O_RDONLY
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_NAMES = frozenset(name[:15] for name in CARRIERS)


class Pipes:
    """Finds the files, and remembers them: every descriptor of the node may have to be looked at."""

    def __init__(self, proc: str = "/proc", root: str = "") -> None:
        self._proc = proc
        self._root = root
        self._found: Dict[Tuple[str, str], Tuple[float, List[str]]] = {}

    def files(self, pid: int, pipe: str, container: str, now: float) -> List[str]:
        """Files in which what ``pid`` writes to ``pipe`` ends up, as of the last search; of its container otherwise."""
        key = pipe, container
        searched, found = self._found.get(key, (float("-inf"), []))
        if not found and not 0 <= now - searched <= SEARCH:
            found = self._of_container(container) or list(dict.fromkeys(self._follow(pid, pipe, HOPS, set())))
            self._found[key] = (now, found)
        return found

    def _of_container(self, name: str) -> List[str]:
        if not _CONTAINER.match(name):  # else a scheduler's name, or a namespace
            return []
        return [path for pattern in CONTAINER_LOGS for path in sorted(glob.glob(self._root + pattern.format(name)))]

    def _follow(self, pid: int, pipe: str, hops: int, seen: Set[int]) -> Iterator[str]:
        for reader in self._readers(pid, pipe):
            if reader in seen:
                continue
            seen.add(reader)
            written = [one for one in self._written(reader) if one[0] != pipe]
            plain = [path for path, is_pipe in written if not is_pipe]
            yield from plain
            for path, _ in () if plain or hops == 1 else written:  # who keeps it himself hands on something else
                yield from self._follow(reader, path, hops - 1, seen)

    def _readers(self, pid: int, pipe: str) -> Iterator[int]:
        """Who reads it: by standard input anybody; by any descriptor the writer's ancestors, and known carriers."""
        ancestors = set(self._ancestors(pid))
        # a FIFO is held for both by who reads it, so that it outlives those who write
        readable = (os.O_RDONLY, os.O_RDWR) if pipe.startswith("/") else (os.O_RDONLY,)
        looked = 0
        for name in files.list_folder(self._proc):
            if not name.isdigit():
                continue
            base = "%s/%s" % (self._proc, name)
            if files.link(base + "/fd/0") == pipe:
                yield int(name)
            elif looked < READERS and (int(name) in ancestors or files.read_text(base + "/comm") in _NAMES):
                looked += 1
                held = [number for number in _open(base) if files.link(base + "/fd/" + number) == pipe]
                if any(_access(base, number) in readable for number in held):
                    yield int(name)

    def _ancestors(self, pid: int) -> Iterator[int]:
        for _ in range(64):
            found = read_stat(self._proc, pid)
            if found is None or found.parent <= 1:
                return
            pid = found.parent
            yield pid

    def _written(self, pid: int) -> Iterator[Tuple[str, bool]]:
        """What a process writes: (file or pipe, whether it is a pipe)."""
        base = "%s/%d" % (self._proc, pid)
        for descriptor in _open(base):
            path = files.link(base + "/fd/" + descriptor)
            if descriptor == "2" or _access(base, descriptor) == _READ_ONLY:
                continue  # to standard error goes what it says itself
            if path.startswith("pipe:"):
                yield path, True
            elif path.startswith("/") and not path.startswith(("/dev/", "/proc/")) and not path.endswith(" (deleted)"):
                kind = _kind(base + "/fd/" + descriptor)
                if stat.S_ISREG(kind):
                    yield seen_by(pid, path, self._proc), False
                elif stat.S_ISFIFO(kind):
                    yield path, True


def _open(base: str) -> List[str]:
    return files.list_folder(base + "/fd")


def _access(base: str, descriptor: str) -> int:
    """How a descriptor was opened: O_RDONLY, O_WRONLY or O_RDWR; O_RDONLY where that may not be read."""
    for line in files.read_text("%s/fdinfo/%s" % (base, descriptor)).splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            try:
                return int(value.strip(), 8) & _ACCESS
            except ValueError:
                return _READ_ONLY
    return _READ_ONLY


def _kind(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0
