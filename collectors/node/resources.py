"""Keeps the node side small: what a job's node has is the job's."""

from __future__ import annotations

import os
from typing import Optional

from collectors.node.files import list_folder

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
KEPT = 4 << 20
"""Bytes of free memory that are kept for the next blocks."""
LOW = 10
"""Niceness of what runs on a node: a tenth of what others get, were all cores taken. The lowest priority, 19, would be
a hundredth, less than the little that is needed: with several busy processes a core, samples came every two to six
seconds, and what was ready to hear a heartbeat was not given a core in time.
"""


def yield_to_all(except_thread: Optional[int] = None) -> None:
    """Give every thread of this process but one a low priority, or leave it lower; on Linux each has its own."""
    for thread in list_folder("/proc/self/task"):
        if int(thread) == except_thread:
            continue
        try:
            present = os.getpriority(os.PRIO_PROCESS, int(thread))
            os.setpriority(os.PRIO_PROCESS, int(thread), max(present, LOW))  # to be given more needs a right
        except ProcessLookupError:  # it ended meanwhile
            continue


class Allocator:
    """The C library's allocator, where it is glibc's; on any other its methods do nothing."""

    def __init__(self) -> None:
        try:
            import ctypes

            libc: object = ctypes.CDLL(None)
        except (ImportError, OSError):
            libc = None
        self._mallopt = getattr(libc, "mallopt", lambda _option, _value: None)
        self._trim = getattr(libc, "malloc_trim", lambda _kept: None)

    def share_one_arena(self) -> None:
        """Let all threads allocate from one arena (one each costs 2 MB in all). Call it before threads are started."""
        self._mallopt(_M_ARENA_MAX, 1)

    def reuse_blocks(self) -> None:
        """Let blocks of up to 1 MB come from memory that was used before; new pages cost a fifth of reading a log."""
        self._mallopt(_M_MMAP_THRESHOLD, 1 << 20)
        self._mallopt(_M_TRIM_THRESHOLD, KEPT)

    def give_back(self) -> None:
        """Return to the system what compiling our modules needed and nothing needs any more."""
        self._trim(0)
