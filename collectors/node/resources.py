"""Keeps the node side small: what a job's node has is the job's."""

from __future__ import annotations

import gc
import os
from typing import Callable

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
KEPT = 4 << 20
"""Bytes of free memory that are kept for the next blocks."""
CYCLES = 20_000
"""Objects that are made, less those that have ended, between two searches for reference cycles."""
LOW = 10
"""Niceness of what runs on a node: a tenth of what others get, were all cores taken. The lowest priority, 19, would be
a hundredth, less than the little that is needed: with several busy processes a core, samples came every two to six
seconds, and what was ready to hear a heartbeat was not given a core in time.
"""


def yield_to_all() -> None:
    """Give the thread that calls this a low priority, or leave it lower; on Linux each thread has its own."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(own, LOW))  # to be given more needs a right


def reuse_memory() -> None:
    """Let blocks of up to 1 MB come from memory that was used before; new pages cost a fifth of reading a log.

    All threads allocate from one arena (one each costs 2 MB in all), if called before they are started. Reference
    cycles are looked for seldom: hardly any are made, and each search costs as much as reading a rank.
    """
    mallopt = _of_libc("mallopt")
    mallopt(_M_MMAP_THRESHOLD, 1 << 20)
    mallopt(_M_TRIM_THRESHOLD, KEPT)
    mallopt(_M_ARENA_MAX, 1)
    gc.set_threshold(CYCLES)


def give_memory_back() -> None:
    """Return to the system what compiling our modules needed and nothing needs any more."""
    _of_libc("malloc_trim")(0)


def _of_libc(name: str) -> Callable[..., object]:
    """A function of glibc's; one that does nothing where Python has no ctypes, or the C library is another."""
    try:
        import ctypes

        return getattr(ctypes.CDLL(None), name, lambda *_: None)
    except (ImportError, OSError):
        return lambda *_: None
