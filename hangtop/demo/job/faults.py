"""Faults that a job can have planted: which, on which rank, and when.

A job asks :func:`struck` at the place where the fault belongs; everything that then goes wrong is real: a file that
never opens, a lock that is held, a loop that does not end.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
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
        "uninterruptible": "a system call that no signal ends (state D)",
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


class TokenBudget:
    """Counts tokens under a lock that a reporting thread shares."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._never = threading.Event()
        self.tokens = 0

    def add(self, tokens: int) -> None:
        """Count ``tokens``."""
        with self._lock:
            self.tokens += tokens

    def report_forever(self) -> None:
        """Hold the lock and wait for an answer that does not come: what a stuck metrics upload does."""
        with self._lock:
            self._never.wait()


def pack_sequences(lengths: list[int], capacity: int) -> int:
    """Count bins of ``capacity`` for ``lengths``; a length over the capacity is never placed."""
    bins = 0
    while lengths:
        room, rest = capacity, []
        for length in lengths:
            if length <= room:
                room -= length
            else:
                rest.append(length)
        lengths, bins = rest, bins + 1
    return bins


def mirror_artifacts(folder: Path) -> None:
    """Start an uploader whose input does not open: the parent of a vfork waits in state D until its child execs."""
    source = str(dead_file(folder))
    # Once this process is gone, open the far end: the child would stay blocked for ever.
    subprocess.Popen(["sh", "-c", f"while kill -0 {os.getpid()}; do sleep 1; done; : >{shlex.quote(source)}"])
    os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, source, os.O_RDONLY, 0)])


def suffer(budget: TokenBudget, folder: Path) -> None:
    """Let the planted fault strike, if it is one of those that strike between steps."""
    if struck("lock"):
        threading.Thread(target=budget.report_forever, name="metrics-upload", daemon=True).start()
        time.sleep(0.2)
    budget.add(1)
    pack_sequences([9 if struck("busy") else 3, 2, 4], 8)
    if struck("uninterruptible"):
        mirror_artifacts(folder)
    if struck("stopped"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if struck("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if struck("crash"):
        raise ValueError("token id 50304 is out of range for a vocabulary of 50257")
