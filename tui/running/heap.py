"""One heap for all threads, and what it does not need given back.

glibc gives each thread that asks for memory while another does a heap of its own, and what one of them once held the
others cannot have: the threads in which thousands of nodes are judged kept 20 MB that nobody used.
"""

from __future__ import annotations

import asyncio
import ctypes

_ARENA_MAX = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def share_heap() -> bool:
    """Let threads that come now take their memory from the one heap; False where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return bool(mallopt(_ARENA_MAX, 1))


async def give_back() -> bool:
    """Give the system what was freed in the middle of the heap, as thousands of handshakes leave it; False without.

    In a thread: it takes milliseconds.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return bool(await asyncio.to_thread(trim, 0))
