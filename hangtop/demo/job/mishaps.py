"""User code in which a planted fault strikes between two steps: each function is one way for a rank to go astray."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path

from hangtop.demo.job import faults


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


def wait_for_quota(path: Path) -> None:
    """Wait until another system has granted room for the run's artifacts."""
    while not path.exists():
        time.sleep(1.0)


def mirror_artifacts(folder: Path) -> None:
    """Start an uploader whose input does not open: the parent of a vfork waits in state D until its child execs."""
    source = str(faults.dead_file(folder))
    # Once this process is gone, open the far end: the child would stay blocked for ever.
    subprocess.Popen(["sh", "-c", f"while kill -0 {os.getpid()}; do sleep 1; done; : >{shlex.quote(source)}"])
    os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, source, os.O_RDONLY, 0)])


def suffer(budget: TokenBudget, folder: Path) -> None:
    """Let the planted fault strike, if it is one of those that strike between steps."""
    if faults.struck("lock"):
        threading.Thread(target=budget.report_forever, name="metrics-upload", daemon=True).start()
        time.sleep(0.2)
    budget.add(1)
    pack_sequences([9 if faults.struck("busy") else 3, 2, 4], 8)
    if faults.struck("sleep"):
        wait_for_quota(folder / "quota-granted")
    if faults.struck("uninterruptible"):
        mirror_artifacts(folder)
    if faults.struck("stopped"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if faults.struck("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if faults.struck("crash"):
        raise ValueError("token id 50304 is out of range for a vocabulary of 50257")
