"""Control groups of a process, versions 1 and 2: which one.

Formats: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

from collectors.node.files import text


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
