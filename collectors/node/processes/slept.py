"""Since when a rank has been waiting, for those who come late to a hang.

The scheduler notes when a thread was last put on a CPU (``se.exec_start`` of /proc/PID/sched, readable by everyone).
Its clock runs apart on each CPU, as it leaves out interrupts and stolen time, so a thread of ours goes to that CPU for
a moment and reads its own note there; the difference is the time that passed. That costs 0.1 ms, 0.2 s at the worst
when all CPUs are busy, and is done once in a wait.
"""

from __future__ import annotations

import os
from typing import Optional

from collectors.node.files import list_folder, read_or_none
from collectors.node.processes.procfs import ProcessStatus, parse_stat

LOOKS = 2
"""Looks without a voluntary switch after which a process counts as waiting."""
GRADIENTS = b"pt_autograd"
"""Name of PyTorch's threads for the backward pass on a device; they sleep between two of them."""
_FIELD = b"se.exec_start"


class WaitStart:
    """Follows one rank and finds out, once in each wait, since when it has lasted."""

    __slots__ = ("_looks", "_since", "_switches")

    def __init__(self) -> None:
        self._switches = (-1, -1)
        self._looks = 0
        self._since: Optional[float] = None

    @property
    def lasts(self) -> bool:
        """Whether its main thread has made no step for several looks."""
        return self._looks >= LOOKS

    def since(self, proc: str, pid: int, status: ProcessStatus, now: float) -> Optional[float]:
        """Wall clock since when this rank has made no step; None while it makes some, or where that cannot be told.

        A wait that sleeps began when the main thread last ran. One that spins, as on a GPU that waits in NCCL, began
        after the last backward pass.
        """
        before, self._switches = self._switches, (status.voluntary_switches, status.involuntary_switches)
        if before[0] != self._switches[0]:
            self._looks, self._since = 0, None
            return None
        self._looks += 1
        if self._looks == LOOKS:
            base = "%s/%d/" % (proc, pid)
            seconds = slept(base) if before == self._switches else _since_gradients(base)
            self._since = None if seconds is None else round(now - seconds, 1)
        return self._since


def slept(base: str) -> Optional[float]:
    """Seconds since the thread whose folder in /proc this is last ran; None where the kernel does not tell."""
    then = _put_on(base + "sched")
    stat = parse_stat(read_or_none(base + "stat") or b"")
    if then is None or stat is None or stat.processor < 0:
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {stat.processor})
    except OSError:
        return None  # a CPU that this process may not use: its clock cannot be read
    try:
        now = _put_on("/proc/thread-self/sched")
    finally:
        os.sched_setaffinity(0, allowed)
    if now is None or _put_on(base + "sched") != then:
        return None
    return max(0.0, (now - then) / 1000)


def _since_gradients(base: str) -> Optional[float]:
    known = [
        seconds
        for task in list_folder(base + "task")
        if (read_or_none("%stask/%s/comm" % (base, task)) or b"").startswith(GRADIENTS)
        for seconds in [slept("%stask/%s/" % (base, task))]
        if seconds is not None
    ]
    return min(known) if known else None


def _put_on(path: str) -> Optional[float]:
    """When a thread was last put on its CPU, milliseconds of that CPU's clock.

    None for one that was given another CPU and has not run there yet: the kernel has forgotten when it ran (0).
    """
    for line in (read_or_none(path) or b"").splitlines():
        if line.startswith(_FIELD):
            try:
                return float(line.partition(b":")[2]) or None
            except ValueError:
                return None
    return None
