"""Faults to plant in a job: which fault, on which rank, and when.

The job calls :func:`struck` at the place of a fault. The failure that follows is real: a file that never opens, a
collective that only one rank enters.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

FAULTS: Mapping[str, str] = {
    "dataloader": "a reader blocks on a file that never opens",
    "checkpoint": "torch.save blocks on a file system that does not answer",
    "straggler": "one rank takes ten times as long for a step",
    "conditional": "a collective that only one rank enters",
    "init": "one rank does not reach init_process_group",
    "stopped": "one rank is stopped (SIGSTOP)",
    "killed": "one rank is killed (SIGKILL)",
    "crash": "one rank raises an exception",
}
"""Name of each fault, with a description."""


_planted: dict[str, float] = {}
"""The fault of this rank, and the monotonic time from which it strikes; forked data workers have a copy."""


def arm(fault: str, after: float) -> None:
    """Plant a fault in this rank, to strike in ``after`` seconds."""
    _planted[fault] = time.monotonic() + after


def struck(fault: str) -> bool:
    """Whether ``fault`` strikes this rank now."""
    return time.monotonic() >= _planted.get(fault, math.inf)


def dead_file(folder: Path) -> Path:
    """Make a file whose open blocks as on a dead network file system: a named pipe without a writer or reader."""
    path = folder / f"stale-{os.getpid()}-{time.monotonic_ns()}.bin"
    os.mkfifo(path)
    return path


def suffer() -> None:
    """Let the planted fault strike, if it is a fault between steps."""
    if struck("stopped"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if struck("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if struck("crash"):
        raise ValueError("token id 50304 is out of range for a vocabulary of 50257")
