"""Processes that version 1 of the control groups has frozen, told as kernels before Linux 6.1 show them.

Until then a frozen process slept in ``__refrigerator``. Since then it stays where it slept before (kernel/freezer.c),
so that state D and a wait channel like any other are all that /proc shows: the freezer is asked.
"""

from __future__ import annotations

from collectors.node.files import read_or_none, read_text
from collectors.node.processes.procfs import parse_controller

REFRIGERATOR = "__refrigerator"


def place(pid: int, state: str, wchan: str, proc: str = "/proc", sys: str = "/sys") -> str:
    """Where a process waits in the kernel: :data:`REFRIGERATOR` for one in state D whose group is frozen."""
    if state != "D":
        return wchan
    path = parse_controller(read_or_none("%s/%d/cgroup" % (proc, pid)) or b"", "freezer")
    if path is None:
        return wchan
    frozen = read_text("%s/fs/cgroup/freezer%s/freezer.state" % (sys, path.rstrip("/"))) == "FROZEN"
    return REFRIGERATOR if frozen else wchan
