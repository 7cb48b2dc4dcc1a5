"""What is asked of the program that looks at stacks: all that this side needs to know of it."""

from __future__ import annotations

from typing import List, NamedTuple


class DumpRequest(NamedTuple):
    """What to dump, and how."""

    targets: List[List[int]]
    """``[pid, pid of the rank that it belongs to]``."""
    native: bool = False
    """With native frames: pauses each process for up to 25 ms and costs half a second of CPU for each."""
    blocking: bool = True
    """A read that stays torn may be repeated with the process paused, for under 1 ms."""
    helpers: bool = True
    """Dump the children of a process too when its main thread may be waiting for one."""
    samples: int = 1
    gap: float = 0.5
    """Seconds between samples."""
    deadline: float = 3.0
    """Seconds that one py-spy may take."""
    py_spy: str = ""
    """Path of the py-spy to use; empty: look for one."""
    sudo: bool = False
    """Where this login may not trace, ``sudo -n`` may be tried."""
