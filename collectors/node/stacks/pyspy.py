"""Finds or borrows a py-spy on this node and builds its commands; reads the control lines of programs that run it."""

from __future__ import annotations

import base64
import fcntl
import os
import zlib
from queue import Empty, SimpleQueue
from typing import List, NamedTuple, Optional

from collectors.node import child, watchdog
from collectors.node.files import write_all
from collectors.node.wire import decode_control, say
from collectors.samples.stream import Lent

PLACES = ("/opt/conda/bin", "/opt/venv/bin", os.path.expanduser("~/.local/bin"))
"""Folders searched in addition to those of other tools."""
FETCH_SECONDS = 30.0
"""Seconds to wait for a lent py-spy."""
RATE = 50
"""Samples per second of a flame graph."""


class WantsPySpy(NamedTuple):
    """Request for a py-spy for this node; the answer is a line :class:`Lent`, without content if there is none."""

    machine: str
    """``x86_64``, ``aarch64``."""


class InputLines:
    """Lines of standard input except heartbeats; :func:`watchdog.watch` reads them. One instance per program."""

    def __init__(self) -> None:
        self._lines: "SimpleQueue[bytes]" = SimpleQueue()
        watchdog.watch(self._lines.put)

    def next(self, seconds: float) -> Optional[bytes]:
        """The next line; None if no line arrives in time."""
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            return None


def find_or_borrow(lines: InputLines) -> Optional[str]:
    """Path of this node's py-spy, else of a lent one; as root only of a file that no other user can change.

    None if there is none to lend, or this kernel cannot run a program from memory.
    """
    found = child.find("py-spy", PLACES)
    if found is not None:
        return found
    say(WantsPySpy(os.uname().machine))
    try:
        lent = decode_control(lines.next(FETCH_SECONDS) or b"")
        return borrow(base64.b64decode(lent.content)) if isinstance(lent, Lent) and lent.content else None
    except (OSError, AttributeError, ValueError, zlib.error):
        return None


def borrow(compressed: bytes) -> str:
    """Write a lent py-spy into a sealed memfd, not to disk, and return its path.

    Raises :class:`OSError` if the kernel allows no executable memfd, :class:`zlib.error` for corrupt data.
    """
    descriptor = os.memfd_create("py-spy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    write_all(descriptor, zlib.decompress(compressed))
    os.fchmod(descriptor, 0o700)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    # not /proc/self: children close the descriptor, and sudo runs as another user
    return "/proc/%d/fd/%d" % (os.getpid(), descriptor)


def dump_command(path: str, pid: int, method: str, with_locals: bool) -> List[str]:
    """Command line of one dump. ``method`` as in :class:`collectors.samples.stacks.StackDump`."""
    ways = ["--" + method] if method in ("nonblocking", "native") else []
    return [path, "dump", "--json", "--pid", str(pid), *ways, *(["--locals"] if with_locals else [])]


def record_command(path: str, pid: int, seconds: float, output: str) -> List[str]:
    """Command line that samples a process and writes folded stacks, including idle threads: waits are of interest."""
    return [
        path, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw",
        "--rate", str(RATE), "--duration", str(max(1, round(seconds))), "--pid", str(pid), "--output", output,
    ]  # fmt: skip
