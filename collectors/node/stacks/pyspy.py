"""py-spy on this node: found or borrowed, and how it is called; and the lines that a program that runs it is sent."""

from __future__ import annotations

import base64
import fcntl
import os
import zlib
from queue import Empty, SimpleQueue
from typing import List, NamedTuple, Optional

from collectors.node import child, watchdog
from collectors.node.wire import decode_control, say
from collectors.samples.stream import Lent

PLACES = ("/opt/conda/bin", "/opt/venv/bin", os.path.expanduser("~/.local/bin"))
"""Beside those of other tools."""
FETCH_SECONDS = 30.0
"""Seconds that a loan may take to come."""
RATE = 50
"""Samples a second of a flame graph."""
MOST = 64 << 20
"""Bytes of one line."""


class WantsPySpy(NamedTuple):
    """This node needs a py-spy to be lent to it; the answer is a line, :class:`Lent`, without content for none."""

    machine: str
    """``x86_64``, ``aarch64``."""


class InputLines:
    """Lines of standard input but heartbeats, read in a thread of its own that re-arms the alarm. One a program."""

    def __init__(self) -> None:
        self._lines: "SimpleQueue[bytes]" = SimpleQueue()
        self._rest = bytearray()
        watchdog.watch(self._hear)

    def _hear(self, data: bytes) -> None:
        self._rest += data
        if b"\n" in data:  # a loan is one line of megabytes, which comes in small pieces
            *lines, self._rest = self._rest.split(b"\n")
            for line in filter(None, lines):
                self._lines.put(bytes(line))
        if len(self._rest) > MOST:
            watchdog.leave(1)

    def next(self, seconds: float) -> Optional[bytes]:
        """The next line; None when none comes in time."""
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            return None


def find_or_borrow(lines: InputLines) -> Optional[str]:
    """Path of the py-spy of this node, else of a lent one; as root only of one that nobody else can change.

    None when there is none to lend, or this kernel runs nothing from memory.
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


def record_command(path: str, pid: int, seconds: float, output: str) -> List[str]:
    """Words that sample a process and write folded stacks; waiting threads count too: waits are what one seeks."""
    return [
        path, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw",
        "--rate", str(RATE), "--duration", str(max(1, round(seconds))), "--pid", str(pid), "--output", output,
    ]  # fmt: skip
