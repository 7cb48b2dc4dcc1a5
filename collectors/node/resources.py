"""Keeps the node side's use of CPU and memory low: a node's resources belong to the job."""

from __future__ import annotations

import gc
import os
from typing import Callable

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
KEPT = 4 << 20
"""Bytes of free memory kept for later allocations."""
CYCLES = 20_000
"""Allocations minus deallocations between two garbage collections."""
LOW = 10
"""Niceness on a node: with all cores busy, a tenth of another process's CPU share. Niceness 19 would give a hundredth,
which is too little: with several busy processes per core, samples came every two to six seconds, and the thread that
reads heartbeats did not get a core in time."""


def yield_to_all() -> None:
    """Lower the calling thread's priority to :data:`LOW`, unless it is lower; on Linux each thread has its own."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, LOW))  # raising it would need a privilege


def reuse_memory() -> None:
    """Reuse memory for blocks of up to 1 MB (new pages cost a fifth of reading a log), and collect garbage rarely.

    If called before threads start, all threads allocate from one arena (separate arenas cost 2 MB in total). Few
    reference cycles arise, and each garbage collection costs as much as reading a rank.
    """
    mallopt = _of_libc("mallopt")
    mallopt(_M_MMAP_THRESHOLD, 1 << 20)
    mallopt(_M_TRIM_THRESHOLD, KEPT)
    mallopt(_M_ARENA_MAX, 1)
    gc.set_threshold(CYCLES)


def give_memory_back() -> None:
    """Return unused memory to the system, mainly from compiling our modules."""
    _of_libc("malloc_trim")(0)


def _of_libc(name: str) -> Callable[..., object]:
    """A function of glibc; a no-op if Python has no ctypes, or the C library lacks the function."""
    try:
        import ctypes

        return getattr(ctypes.CDLL(None), name, lambda *_: None)
    except (ImportError, OSError):
        return lambda *_: None
