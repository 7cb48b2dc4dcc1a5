"""A rank that waits for what no process of the job brings: an answer, a program's end, a file or the lock on one."""

from __future__ import annotations

from itertools import takewhile

from hangtop.diagnosis.stacks.generic import LOCK_FILE
from hangtop.diagnosis.stacks.system import CHILD, FILE_LOCKS
from hangtop.diagnosis.tables.thresholds import FROM_OUTSIDE_S, LONG_WORK_S, OWN_WORK_S, TRICKLE_BYTES_PER_S
from hangtop.diagnosis.waits.answers import asks_afar
from hangtop.diagnosis.waits.children import ENDED, ONE, PROGRAM, STOPPED
from hangtop.diagnosis.waits.rank_status import RankStatus

HELD_UP = "futex"
"""Beginning of the functions of the kernel in which a fork waits for a lock: one that was held as it was forked."""
PROGRAMS_S = 5.0
"""Seconds in which a program that goes on does something, be it little."""


def outside_due(status: RankStatus, waited: float) -> float:
    """Seconds that the others, who have ``waited`` so long, may wait for such a rank at the least; 0 for any other.

    Who looks again and again was written to wait for long, and a program that does a little now and then goes on. One
    that reads or writes a little all the time copies something over a slow path.
    """
    if not waits_outside(status):
        return 0.0
    if _runs_a_program(status) and (status.motion.helpers_bytes or 0.0) > TRICKLE_BYTES_PER_S:
        return LONG_WORK_S
    if status.activity is not None and status.activity.syscall in CHILD and 0.0 < status.motion.unrun < waited:
        return min(waited - status.motion.unrun + FROM_OUTSIDE_S, LONG_WORK_S)  # it came to this wait only then
    looks_again = status.activity is not None and status.activity.waits == "time"
    return OWN_WORK_S if looks_again or _goes_on(status) else FROM_OUTSIDE_S


def waits_outside(status: RankStatus) -> bool:
    """True for a rank that will go on by itself once something comes which the job has no part in.

    It asks through a socket, looks again after each short sleep, runs a program that is alive or waits for the end of
    a fork of its own which is, or reads from a pipe while it has started one, or wants a lock on a file, or a lock
    file, that another process keeps.
    """
    doing = status.activity
    if doing is None or status.state != "working" or status.busy:
        return False
    if doing.waits == "time" or doing.syscall in FILE_LOCKS or doing.label == LOCK_FILE:
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
    ends = doing.syscall in CHILD
    alive = all(
        child.state not in (*ENDED, *STOPPED)
        and (child.role == PROGRAM or (ends and not child.wchan.startswith(HELD_UP)))
        for child in children
    )
    return alive and (bool(children) or doing.waiting_on.startswith(ONE))


def _goes_on(status: RankStatus) -> bool:
    """The programs that it runs have used the CPU, read or written, lately: in little, else they would be at work."""
    if status.process is None or not _runs_a_program(status):
        return False
    looks = status.process.looks
    newest = looks[-1].at
    lately = [look.value for look in takewhile(lambda look: look.at >= newest - PROGRAMS_S, reversed(looks))]
    done = {(pulse.helpers_cpu, pulse.helpers_bytes) for pulse in lately if pulse.helpers_bytes is not None}
    return len(done) > 1
