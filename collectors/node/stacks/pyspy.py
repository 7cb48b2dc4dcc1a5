"""py-spy on this node: where it is, and how it is called."""

from __future__ import annotations

import fcntl
import os
import zlib
from typing import List, Optional

from collectors.node import child

PLACES = ("/opt/conda/bin", "/opt/venv/bin", os.path.expanduser("~/.local/bin"))
"""Beside those of other tools."""


def find(given: str = "") -> Optional[str]:
    """Path of the py-spy of this node; as root only of one that nobody else can change (see :func:`child.find`).

    ``given`` is a path that the user named: nothing else is looked at then, and others may be able to change it.
    """
    if given:
        return given if os.path.isfile(given) and os.access(given, os.X_OK) else None
    return child.find("py-spy", PLACES)


def borrow(compressed: bytes) -> str:
    """Put a py-spy that was sent along into memory, where it can be run; nothing is written on a disk. Its path.

    Raises :class:`OSError` where the kernel allows no such memory, :class:`zlib.error` for a broken one.
    """
    descriptor = os.memfd_create("py-spy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(zlib.decompress(compressed))
    while view:
        view = view[os.write(descriptor, view) :]
    os.fchmod(descriptor, 0o700)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    # by number of this process: children close the descriptor, and sudo runs as another user
    return "/proc/%d/fd/%d" % (os.getpid(), descriptor)


def dump_command(path: str, pid: int, method: str, with_locals: bool) -> List[str]:
    """Words of one dump. ``method`` as in :class:`collectors.samples.stacks.StackDump`."""
    ways = ["--" + method] if method in ("nonblocking", "native") else []
    return [path, "dump", "--json", "--pid", str(pid), *ways, *(["--locals"] if with_locals else [])]


def record_command(path: str, pid: int, seconds: float, rate: int, output: str) -> List[str]:
    """Words that sample a process and write folded stacks; waiting threads count too: waits are what one seeks."""
    return [
        path, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw",
        "--rate", str(rate), "--duration", str(max(1, round(seconds))), "--pid", str(pid), "--output", output,
    ]  # fmt: skip
