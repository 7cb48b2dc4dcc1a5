"""How long a sleep will last yet: the time that the call was given, read from the memory of the process that made it.

CPython sleeps until a time by the clock that only goes forward (3.11 and later); what was told a length of time instead
says nothing of how much of that is left. It is read by /proc/PID/mem, as part of a look at a stack: nothing is stopped.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Sequence

from collectors.node import files

CALL = "clock_nanosleep"
_MONOTONIC, _ABSOLUTE = 1, 1
"""CLOCK_MONOTONIC; TIMER_ABSTIME."""
_TIMESPEC = struct.Struct("=qq")
_LONGEST_S = 10**9
"""Seconds: more is no time that anybody waits for."""


def left(folder: str, words: Sequence[str]) -> str:
    """``its clock for 13 s more``; empty where that cannot be told. ``words``: arguments, as in /proc/PID/syscall."""
    try:
        clock, flags, address = (int(word, 16) for word in words[:3])
        if (clock, flags & _ABSOLUTE) != (_MONOTONIC, _ABSOLUTE) or not _our_time(folder):
            return ""
        memory = os.open(folder + "/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            seconds, _ = _TIMESPEC.unpack(os.pread(memory, _TIMESPEC.size, address))
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError, struct.error):  # no such words; it may not be read, or has gone on
        return ""
    more = int(seconds - time.clock_gettime(_MONOTONIC))
    return "its clock for %d s more" % min(more, _LONGEST_S) if more >= 0 else ""


def _our_time(folder: str) -> bool:
    """Whether its clock is ours: it may be in a time namespace of its own."""
    return files.read_text(folder + "/timens_offsets") == files.read_text("/proc/self/timens_offsets")
