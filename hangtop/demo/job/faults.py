"""Faults that a job can have planted: which, on which rank, and when.

A job asks :func:`struck` at the place where the fault belongs; everything that then goes wrong is real: a file that
never opens, a collective that one rank enters.
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
"""Name of each fault, and what happens."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A planted fault: ``rank`` suffers it ``after`` seconds of training."""

    fault: str = ""
    rank: int = 0
    after: float = 0.0


class Clock:
    """Says when the plan strikes this process; copied into data workers with everything else when they fork."""

    def __init__(self) -> None:
        self.plan = Plan()
        self._mine = False
        self._started = time.monotonic()

    def arm(self, plan: Plan, rank: int) -> None:
        """Start counting for ``rank``, this process's own."""
        self.plan = plan
        self._mine = rank == plan.rank
        self._started = time.monotonic()

    def struck(self, fault: str) -> bool:
        """Whether this rank suffers ``fault`` now."""
        return self._mine and self.plan.fault == fault and time.monotonic() - self._started >= self.plan.after


_clock = Clock()
arm = _clock.arm
struck = _clock.struck


def dead_file(folder: Path) -> Path:
    """Make a path whose opening blocks as a dead network file system's does: a pipe with nobody at its far end."""
    path = folder / f"stale-{os.getpid()}-{time.monotonic_ns()}.bin"
    os.mkfifo(path)
    return path


def suffer() -> None:
    """Let the planted fault strike, if it is one of those that strike between steps."""
    if struck("stopped"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if struck("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if struck("crash"):
        raise ValueError("token id 50304 is out of range for a vocabulary of 50257")
