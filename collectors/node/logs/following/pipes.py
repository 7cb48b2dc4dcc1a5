"""The files behind a rank's pipe: what its reader (``tee``, slurmstepd, a launcher) writes, or its container's log."""

from __future__ import annotations

import glob
import os
from typing import Iterator, List

from collectors.node import files
from collectors.node import late_re as re
from collectors.node.processes.procfs import parse_stat
from collectors.node.processes.rooted import seen_by

READERS = 512
"""Processes that are looked at with all their descriptors."""
CARRIERS = frozenset((
    "tee", "slurmstepd", "slurmd", "srun", "conmon", "containerd-shim", "enroot", "apptainer", "singularity", "mpirun",
    "mpiexec", "orted", "prted", "logger", "rotatelogs", "multilog", "svlogd", "cat", "ts", "stdbuf", "awk",
))  # fmt: skip
"""Programs that carry others' output, by the names that the kernel gives them (15 characters at most).

No daemon that writes the logs of all containers: which of them is this rank's, its descriptors do not tell."""
CONTAINER_LOGS = (
    "/var/lib/docker/containers/{0}/{0}-json.log",
    "/var/log/containers/*-{0}.log",
    "/var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
    "/home/*/.local/share/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""Where the runtimes keep what a container prints: docker's json-file, the kubelet's links, podman's k8s-file."""
_CONTAINER = re.compile(r"[0-9a-f]{64}\Z")
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


def files_behind(pid: int, pipe: str, container: str, proc: str = "/proc", root: str = "") -> List[str]:
    """Files that get what ``pid`` writes to ``pipe``: its container's log, else what the pipe's readers write."""
    found: List[str] = []
    if _CONTAINER.match(container):  # else a scheduler's name, or a namespace
        for pattern in CONTAINER_LOGS:
            found += sorted(glob.glob(root + pattern.format(container)))
    for reader in () if found else _readers(pid, pipe, proc):
        found += _written(reader, proc)
    return list(dict.fromkeys(found))


def _readers(pid: int, pipe: str, proc: str) -> Iterator[int]:
    """Processes that read it: any by standard input, the writer's ancestors and known carriers by any descriptor."""
    ancestors = set(_ancestors(pid, proc))
    looked = 0
    for name in files.list_folder(proc):
        base = "%s/%s" % (proc, name)
        if not name.isdigit():
            continue
        if files.link(base + "/fd/0") == pipe:
            yield int(name)
        elif looked < READERS and (int(name) in ancestors or files.read_text(base + "/comm") in CARRIERS):
            looked += 1
            held = [number for number in files.list_folder(base + "/fd") if files.link(base + "/fd/" + number) == pipe]
            if any(_access(base, number) == os.O_RDONLY for number in held):
                yield int(name)


def _ancestors(pid: int, proc: str) -> Iterator[int]:
    for _ in range(64):
        found = parse_stat(files.read_or_none("%s/%d/stat" % (proc, pid)) or b"")
        if found is None or found.parent <= 1:
            return
        pid = found.parent
        yield pid


def _written(pid: int, proc: str) -> Iterator[str]:
    """Regular files that a process writes; to standard error goes what it says itself."""
    base = "%s/%d" % (proc, pid)
    for descriptor in files.list_folder(base + "/fd"):
        held = base + "/fd/" + descriptor
        path = files.link(held)
        if descriptor == "2" or not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
            continue
        if os.path.isfile(held) and _access(base, descriptor) != os.O_RDONLY and not path.endswith(" (deleted)"):
            yield seen_by(pid, path, proc)


def _access(base: str, descriptor: str) -> int:
    """How a descriptor was opened: O_RDONLY, O_WRONLY or O_RDWR; O_RDONLY where that may not be read."""
    for line in files.read_text("%s/fdinfo/%s" % (base, descriptor)).splitlines():
        name, _, value = line.partition(":")
        if name == "flags" and value.strip().isdecimal():
            return int(value.strip(), 8) & _ACCESS
    return os.O_RDONLY
