"""What programs that are asked once say and hear: lines out, and the loan of a py-spy in."""

from __future__ import annotations

import os
import zlib
from typing import Iterable, List, NamedTuple, Optional

from collectors.node import lifeline, pyspy, wire

FETCH_SECONDS = 30
"""Seconds that a loan may take to come."""


class WantsPySpy(NamedTuple):
    """This node needs a py-spy to be lent to it.

    The answer on standard input: 8 hexadecimal digits, the size, and that many bytes, the binary compressed with zlib.
    Size 0: there is none to lend.
    """

    machine: str
    """``x86_64``, ``aarch64``."""
    why: str


def say(sample: NamedTuple) -> None:
    """Print one line."""
    view = memoryview(wire.encode(sample))
    while view:
        view = view[os.write(1, view) :]


def take(count: int) -> bytes:
    """Exactly so many bytes of standard input; ends the program when it ends before."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            lifeline.leave()
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def line() -> bytes:
    """Read one line of standard input, up to its line feed."""
    parts: List[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        lifeline.arm(FETCH_SECONDS)
        parts.append(heard())
    return b"".join(parts)


def heard() -> bytes:
    """What is on standard input, at most 4 KiB, which must be readable; ends the program at its end."""
    data = os.read(0, 4096)
    if not data:
        lifeline.leave()
    return data


def find_or_borrow(pids: Iterable[int], given: str) -> Optional[pyspy.PySpy]:
    """The py-spy of this node (see :func:`pyspy.find`), else a lent one; None when there is none to lend."""
    found = pyspy.find(pids, given)
    if found is not None:
        return found
    return borrow("py-spy %s" % (given + " cannot be run here" if given else "is not here"))


def borrow(why: str) -> Optional[pyspy.PySpy]:
    """Ask for a py-spy; None when there is none to lend, or this kernel runs nothing from memory."""
    say(WantsPySpy(os.uname().machine, why))
    lifeline.arm(FETCH_SECONDS)
    size = int(take(8), 16)
    if not size:
        return None
    try:
        return pyspy.borrow(take(size))
    except (OSError, AttributeError, zlib.error):
        return None
