"""Keeps the node side small: what a job's node has is the job's."""

from __future__ import annotations

import os
from typing import Optional

_M_ARENA_MAX = -8
LOWEST = 19
"""Niceness of the lowest priority."""


def yield_to_all(except_thread: Optional[int] = None) -> None:
    """Give every thread of this process but one the lowest priority; on Linux each has its own."""
    for thread in os.listdir("/proc/self/task"):
        if int(thread) == except_thread:
            continue
        try:
            os.setpriority(os.PRIO_PROCESS, int(thread), LOWEST)
        except ProcessLookupError:  # it ended meanwhile
            continue


class Allocator:
    """The C library's allocator, where it is glibc's; on any other both methods do nothing."""

    def __init__(self) -> None:
        self._libc: Optional[object] = None
        try:
            import ctypes

            self._libc = ctypes.CDLL(None)
        except (ImportError, OSError):
            return

    def share_one_arena(self) -> None:
        """Let all threads allocate from one arena (one each costs 2 MB in all). Call it before threads are started."""
        mallopt = getattr(self._libc, "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, 1)

    def give_back(self) -> None:
        """Return to the system what compiling our modules needed and nothing needs any more."""
        trim = getattr(self._libc, "malloc_trim", None)
        if trim is not None:
            trim(0)
