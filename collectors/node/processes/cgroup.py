"""Control groups of a process, versions 1 and 2: which one, its memory limit, and whether it is frozen.

Formats: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional

from collectors.node.files import read_int, read_or_none, read_text, text
from collectors.node.processes.procfs import UNLIMITED

_V1_UNLIMITED = 1 << 60


class Cgroup(NamedTuple):
    """Where a process is in the cgroup tree."""

    memory_path: str
    """Path below the memory controller's mount."""
    unified: bool
    """True on cgroup v2, where all controllers share one tree."""
    name: str
    """Container id, or the name that a scheduler gave; empty outside both."""


_CONTAINER = re.compile(r"(?:^|[/:.-])([0-9a-f]{64})(?:\.scope)?(?:$|/)")
_SLURM = re.compile(r"/(job_\d+(?:/step_[^/]+)?)")
_MACHINE = re.compile(r"/(?:lxc(?:\.payload)?[./]|machine\.slice/machine-)([^/]+)")


def parse_cgroup(data: bytes) -> Cgroup:
    """Where /proc/PID/cgroup says that a process is: v1, v2 and both at once."""
    memory, unified, name = "", False, ""
    for line in text(data).splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon:
            continue
        if "memory" in controllers.split(","):
            memory, unified = path, False
        elif number == "0" and not controllers and not memory:
            memory, unified = path, True
        name = name or _cgroup_name(path)
    return Cgroup(memory, unified, name)


def parse_controller(data: bytes, controller: str) -> Optional[str]:
    """Path below a controller of version 1 that /proc/PID/cgroup names; None where there is none."""
    for line in text(data).splitlines():
        controllers, colon, path = line.partition(":")[2].partition(":")
        if colon and controller in controllers.split(","):
            return path
    return None


def upward(path: str) -> Iterator[str]:
    """A group's path and those above it, up to the root, which is empty: in a cgroup namespace a container's own."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _cgroup_name(path: str) -> str:
    for pattern in (_CONTAINER, _SLURM, _MACHINE):
        found = pattern.search(path)
        if found:
            return found.group(1)[:64]
    return ""


def memory_limit(cgroup: Cgroup, sys: str = "/sys") -> Optional[int]:
    """Smallest limit on the way from a process's group to the root; :data:`UNLIMITED` where there is none."""
    folder = sys + "/fs/cgroup" + ("" if cgroup.unified else "/memory")
    name = "/memory.max" if cgroup.unified else "/memory.limit_in_bytes"
    limits = []
    seen = False
    for path in upward(cgroup.memory_path):
        limit = read_int(folder + path + name)
        seen = seen or limit is not None or read_text(folder + path + name) == "max"
        if limit is not None and limit < _V1_UNLIMITED:
            limits.append(limit)
    if limits:
        return min(limits)
    return UNLIMITED if seen else None


REFRIGERATOR = "__refrigerator"
"""Wait channel of a frozen process. Since Linux 6.1 it stays where it slept before (kernel/freezer.c), so that state D
and any other wait channel are all that /proc shows: the freezer of version 1 is asked."""


def place(pid: int, state: str, wchan: str, proc: str = "/proc", sys: str = "/sys") -> str:
    """Where a process waits in the kernel: :data:`REFRIGERATOR` for one in state D whose group is frozen."""
    if state != "D":
        return wchan
    path = parse_controller(read_or_none("%s/%d/cgroup" % (proc, pid)) or b"", "freezer")
    if path is None:
        return wchan
    frozen = read_text("%s/fs/cgroup/freezer%s/freezer.state" % (sys, path.rstrip("/"))) == "FROZEN"
    return REFRIGERATOR if frozen else wchan
