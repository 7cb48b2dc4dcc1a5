"""What programs that are asked hear: requests, the loan of a py-spy, a word to stop, and heartbeats among them."""

from __future__ import annotations

import os
import threading
import time
import zlib
from typing import Callable, NamedTuple, Optional

from collectors.node import watchdog
from collectors.node.stacks import pyspy
from collectors.node.wire import say

FETCH_SECONDS = 30.0
"""Seconds that a loan may take to come."""
MOST = 64 << 20
"""Bytes that are heard and not yet taken."""


class WantsPySpy(NamedTuple):
    """This node needs a py-spy to be lent to it.

    The answer on standard input: 8 hexadecimal digits, the size, and that many bytes, the binary compressed with zlib.
    Size 0: there is none to lend.
    """

    machine: str
    """``x86_64``, ``aarch64``."""
    why: str


class Hearing:
    """What comes on standard input, read in a thread of its own that keeps the watchdog calm. One a program."""

    def __init__(self) -> None:
        self._data = b""
        self._more = threading.Condition()
        watchdog.watch(self._hear)

    def _hear(self, data: bytes) -> None:
        with self._more:
            self._data += data
            if len(self._data) > MOST:
                watchdog.leave(1)
            self._more.notify_all()

    def line(self, seconds: float) -> Optional[bytes]:
        """The next line that is no heartbeat; None when none comes in time."""
        with self._more:
            if not self._await(lambda: b"\n" in self._data.lstrip(b"\n"), time.monotonic() + seconds):
                return None
            line, _, self._data = self._data.lstrip(b"\n").partition(b"\n")
            return line

    def loan(self, seconds: float) -> bytes:
        """The content of a loan, empty for none. Raises :class:`ValueError` when it does not come whole, or in time."""
        until = time.monotonic() + seconds
        with self._more:
            if not self._await(lambda: len(self._data.lstrip(b"\n")) >= 8, until):
                raise ValueError("no loan came in time")
            self._data = self._data.lstrip(b"\n")  # heartbeats before it; those within it are its own bytes
            end = 8 + int(self._data[:8], 16)
            if not self._await(lambda: len(self._data) >= end, until):
                raise ValueError("no loan came in time")
            lent, self._data = self._data[8:end], self._data[end:]
            return lent

    def _await(self, come: Callable[[], bool], until: float) -> bool:
        while not come():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._more.wait(left)
        return True


def find_or_borrow(hearing: Hearing, given: str) -> Optional[str]:
    """Path of the py-spy of this node (see :func:`pyspy.find`), else of a lent one.

    None when there is none to lend, or this kernel runs nothing from memory.
    """
    found = pyspy.find(given)
    if found is not None:
        return found
    say(WantsPySpy(os.uname().machine, "py-spy %s" % (given + " cannot be run here" if given else "is not here")))
    try:
        lent = hearing.loan(FETCH_SECONDS)
        return pyspy.borrow(lent) if lent else None
    except (OSError, AttributeError, ValueError, zlib.error):
        return None
