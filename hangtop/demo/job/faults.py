"""Faults that a job can have planted: which, on which rank, and when.

A job asks :func:`struck` at the place where the fault belongs; everything that then goes wrong is real: a file that
never opens, a lock that is held, a loop that does not end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "dataloader": "a reader blocks on a file that never opens",
        "checkpoint": "torch.save blocks on a file system that does not answer",
        "lock": "a lock whose holder waits for ever",
        "busy": "user code loops without end",
        "sleep": "user code waits for something outside",
        "uninterruptible": "a system call that no signal ends (state D)",
        "straggler": "one rank takes ten times as long for a step",
        "conditional": "a collective that only one rank enters",
        "mismatch": "one rank broadcasts while the others all-reduce",
        "size": "one rank reduces a tensor of another size",
        "batches": "one rank has fewer batches than the others",
        "early": "one rank has finished, and waits in its exit handlers",
        "init": "one rank does not reach init_process_group",
        "stopped": "one rank is stopped (SIGSTOP)",
        "killed": "one rank is killed (SIGKILL)",
        "crash": "one rank raises an exception",
        "oom": "one rank runs out of GPU memory",
        "unused": "one rank's parameters take no part in the loss",
        "missing": "one rank leaves a collective out (nccl)",
        "gpu-hang": "a kernel on one GPU never ends (nccl)",
        "network": "the network of one rank dies without a word: all wait in the same collective (nccl)",
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
