"""Gives the operating system the names that Python's threads have, so that /proc, top and gdb show them.

Python does so itself since 3.14. The main thread's name is the process's and stays; a thread that has a name of its own
in the kernel keeps it.
"""

from __future__ import annotations

import os
import threading
from typing import Iterable, Optional

LIMIT = 15
"""Bytes of a thread's name (TASK_COMM_LEN less its NUL)."""


def name_threads(threads: Iterable[threading.Thread]) -> int:
    """Name those that still have the name of the process; how many were named."""
    own = _comm(os.getpid())
    named = 0
    for thread in threads:
        task = thread.native_id
        if task is None or task == os.getpid() or own is None or _comm(task) != own:
            continue
        try:
            with open("/proc/self/task/%d/comm" % task, "wb", buffering=0) as file:
                file.write(thread.name.encode("utf-8", "replace")[:LIMIT])
        except OSError:
            continue  # it has just ended, or /proc may not be written to
        named += 1
    return named


def _comm(task: int) -> Optional[bytes]:
    try:
        with open("/proc/self/task/%d/comm" % task, "rb", buffering=0) as file:
            return file.read().rstrip(b"\n")
    except OSError:
        return None
