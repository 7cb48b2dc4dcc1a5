"""Faults to plant in a job: which fault, on which rank, and when.

The job calls :func:`struck` at the place of a fault. The failure that follows is real: a file that never opens, a
collective that only one rank enters.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "dataloader": "a reader blocks on a file that never opens",
        "checkpoint": "torch.save blocks on a file system that does not answer",
        "straggler": "one rank takes ten times as long for a step",
        "conditional": "a collective that only one rank enters",
        "init": "one rank does not reach init_process_group",
        "stopped": "one rank is stopped (SIGSTOP)",
        "killed": "one rank is killed (SIGKILL)",
        "crash": "one rank raises an exception",
    }
)
"""Name of each fault, with a description."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A planted fault: it strikes ``rank`` after ``after`` seconds of training."""

    fault: str = ""
    rank: int = 0
    after: float = 0.0


class Clock:
    """Decides when the plan strikes this process; forked data workers have a copy."""

    def __init__(self) -> None:
        self.plan = Plan()
        self._mine = False
        self._started = time.monotonic()

    def arm(self, plan: Plan, rank: int) -> None:
        """Start the clock; ``rank``: the rank of this process."""
        self.plan = plan
        self._mine = rank == plan.rank
        self._started = time.monotonic()

    def struck(self, fault: str) -> bool:
        """Whether ``fault`` strikes this rank now."""
        return self._mine and self.plan.fault == fault and time.monotonic() - self._started >= self.plan.after


_clock = Clock()
arm = _clock.arm
struck = _clock.struck


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
