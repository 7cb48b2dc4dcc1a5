"""A rank that waits for what no process of the job brings: an answer, a program's end, a file or the lock on one."""

from __future__ import annotations

from hangtop.diagnosis.stacks.system import FILE_LOCKS
from hangtop.diagnosis.waits.answers import asks_afar
from hangtop.diagnosis.waits.children import ENDED, ONE, PROGRAM, STOPPED
from hangtop.diagnosis.waits.rank_status import RankStatus

FROM_OUTSIDE_S = 8.0
"""Ours: whoever is to bring it may be at work on it for so long, and nothing of that is seen."""


def waits_outside(status: RankStatus) -> bool:
    """True for a rank that will go on by itself once something comes which the job has no part in.

    It asks through a socket, looks again after each short sleep, runs a program that is alive, or reads from a pipe
    while it has started one, or wants a lock on a file that another process keeps.
    """
    doing = status.activity
    if doing is None or status.state != "working" or status.busy:
        return False
    if doing.waits == "time" or doing.syscall in FILE_LOCKS:
        return True
    return asks_afar(status) or _runs_a_program(status)


def _runs_a_program(status: RankStatus) -> bool:
    doing, process = status.activity, status.process
    if doing is None or process is None:
        return False
    reads = doing.waits == "storage" and doing.waiting_on.startswith("pipe")
    if not reads and (doing.kind != "code" or doing.waits != "helper"):
        return False
    children = process.helpers
    alive = all(child.role == PROGRAM and child.state not in (*ENDED, *STOPPED) for child in children)
    return alive and (bool(children) or doing.waiting_on.startswith(ONE))
