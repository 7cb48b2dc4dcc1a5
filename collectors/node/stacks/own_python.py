"""A rank's own interpreter, run beside it: from 3.14 on it can look into processes of its release (``as_rank``).

As root it becomes the rank's owner first, and goes into the rank's namespaces where those are others: its files are
that user's to choose, so nothing of them is run with more rights than the rank has (see ``owner``).
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Dict, NamedTuple, Optional, Tuple

from collectors.node import child, loader
from collectors.node.files import link, read_or_none, text
from collectors.node.processes import launch, owner
from collectors.node.processes.process_state import identity
from collectors.node.processes.rooted import foreign_mounts
from collectors.node.source import Absent

PROGRAM = "as_rank"
"""Blob with the source of that module."""
SINCE = (3, 14)
SLACK = 20.0
"""Seconds beyond those of a question in which the interpreter starts and ends: it has deadlines of its own."""
LIMIT = 192 << 20
_MAPPED = re.compile(rb"/(?:lib)?python(\d)\.(\d{1,3})(t?)d?(?:\.so[.\d]*)?$", re.MULTILINE)
_MAPS_LIMIT = 4 << 20
_OFF = "remote debugging is switched off in this process (%s): leave that out of the next run"


class PythonRelease(NamedTuple):
    """Which Python a process runs."""

    version: Tuple[int, int]
    free_threaded: bool

    @property
    def name(self) -> str:
        """``3.14``, ``3.14t``."""
        return "%d.%d%s" % (*self.version, "t" if self.free_threaded else "")


def release(pid: int, proc: str = "/proc") -> Optional[PythonRelease]:
    """By the interpreter or library that it has mapped; None where that does not tell."""
    found = _MAPPED.search(read_or_none("%s/%d/maps" % (proc, pid), _MAPS_LIMIT) or b"")
    return None if found is None else PythonRelease((int(found.group(1)), int(found.group(2))), bool(found.group(3)))


def unable(pid: int) -> str:
    """Why a process cannot be looked into this way; empty where it can."""
    python = release(pid)
    if python is None:
        return "which Python it runs does not show"
    if python.version < SINCE:
        return "it runs Python %s: this came with 3.14" % python.name
    if link("/proc/%d/ns/user" % pid) != link("/proc/self/ns/user") and os.geteuid() != 0:
        return "it is in another user namespace: connect as root, or into the container"
    whose = owner.owner_of(pid)
    if whose is None:
        return "it is gone, or not simply somebody's process"
    if not owner.may_be_imitated(pid, whose, within=True):
        if os.geteuid() == 0:
            return "it is root's in a container, whose Python is not run by root here: go in by --via kubectl or docker"
        return "it belongs to uid %d: connect as that user, or as root" % whose.uid
    return _switched_off(pid)


def _switched_off(pid: int) -> str:
    """Concerns sending alone, but a process that says so wants not to be looked into."""
    words = text(read_or_none("/proc/%d/cmdline" % pid) or b"").split("\0")
    if any(word.replace("_", "-").replace("-X", "").strip() == "disable-remote-debug" for word in words[1:8]):
        return _OFF % "-X disable-remote-debug"
    environment = read_or_none("/proc/%d/environ" % pid) or b""
    found = re.search(rb"(?:^|\0)PYTHON_DISABLE_REMOTE_DEBUG=([^\0]+)", environment)
    return _OFF % "PYTHON_DISABLE_REMOTE_DEBUG" if found else ""


def run(pid: int, do: str, seconds: float) -> Dict[str, object]:
    """What ``as_rank`` says when it does this (``read``, ``send``) to a process; ``why`` in it says why nothing.

    Call it from a thread that lives until it is back. Raises :class:`OSError` where it cannot be started.
    """
    why = unable(pid)
    whose = owner.owner_of(pid)
    if why or whose is None:
        raise OSError(0, why or "it is gone")
    lent = launch.borrow(pid, "", within=True)
    if owner.owner_of(pid) != whose:
        raise OSError(0, "it is gone")
    foreign = bool(foreign_mounts(pid))
    own = identity(pid).own_pid or pid
    order = {
        "pid": pid, "own_pid": own, "uid": whose.uid, "gid": whose.gid, "groups": list(whose.groups),
        "enter": foreign or own != pid, "do": do, "seconds": seconds, "env": lent.environment,
        # in a container the path is one of its own, and what /proc shows there leads to it
        "python": "/proc/%d/exe" % own if foreign else lent.python,
    }  # fmt: skip
    source = (loader.blob(PROGRAM) or b"").decode()
    words = [sys.executable, "-I", "-S", "-B", "-c", source]
    try:
        done = child.run(words, seconds + SLACK, LIMIT, json.dumps(order).encode() + b"\n", bare=True)
    except Absent as error:
        raise OSError(0, str(error)) from error
    if done.status is None:
        raise OSError(0, "its interpreter did not come back")
    try:
        said = json.loads(done.stdout)
    except (ValueError, RecursionError) as error:
        last = text(done.stderr).strip().splitlines()
        raise OSError(0, last[-1][:300] if last else "it said nothing") from error
    return said if isinstance(said, dict) else {}
