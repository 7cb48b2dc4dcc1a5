"""What the call waits for in which a process sleeps: a clock, a file lock that another keeps, a connection's far end.

File locks stand in /proc/locks (proc_locks(5), ``lock_get_status`` in the kernel's fs/locks.c): ``1: FLOCK  ADVISORY
WRITE 708 08:01:1449 0 EOF``, and behind a lock those that wait for it, with its number and an arrow: ``1: -> FLOCK
ADVISORY  WRITE 709 …``. A lock of an open file description has -1 for its process; a lock that another machine keeps is
not in the list.
"""

from __future__ import annotations

import os
import re
import struct
import time
from typing import Sequence

from collectors.node import files
from collectors.node.processes.procfs import parse_stat, read_stat
from collectors.node.processes.socket_tables import ESTABLISHED, SocketOwners, TcpSocket, of_ports
from collectors.samples.stacks import RUNS

SLEEP = "clock_nanosleep"
_MONOTONIC, _ABSOLUTE = 1, 1
"""CLOCK_MONOTONIC; TIMER_ABSTIME."""
_TIMESPEC = struct.Struct("=qq")
_LONGEST_S = 10**9
"""Seconds: more is no time that a program waits for."""
LOCKS_LIMIT = 1 << 20
"""Bytes of the list of locks that are read: some 16,000 locks."""
THREADS = 64
"""Threads of a process at a far end that are looked at."""
_LOCK = re.compile(r"^(\d+): +(->)? *\S+ +\S+ +\S+ +(-?\d+) ", re.MULTILINE)


def sleep_left(folder: str, words: Sequence[str]) -> str:
    """``its clock for 13 s more``; empty where that cannot be told. ``words``: arguments, as in /proc/PID/syscall.

    CPython (3.11 and later) sleeps until a time by the monotonic clock, which is read from the memory of the process as
    part of a look at its stack: nothing is stopped.
    """
    try:
        clock, flags, address = (int(word, 16) for word in words[:3])
        if (clock, flags & _ABSOLUTE) != (_MONOTONIC, _ABSOLUTE) or not _our_time(folder):
            return ""
        memory = os.open(folder + "/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            seconds, _ = _TIMESPEC.unpack(os.pread(memory, _TIMESPEC.size, address))
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError, struct.error):  # no such words; it may not be read, or has gone on
        return ""
    more = int(seconds - time.clock_gettime(_MONOTONIC))
    return "its clock for %d s more" % min(more, _LONGEST_S) if more >= 0 else ""


def _our_time(folder: str) -> bool:
    """Whether its clock is ours: it may be in a time namespace of its own."""
    return files.read_text(folder + "/timens_offsets") == files.read_text("/proc/self/timens_offsets")


def lock_holder(pid: int, proc: str = "/proc") -> str:
    """``process 708 (python3)``, which keeps the file lock that a process waits for; empty where none is known."""
    keeper = ("", 0)
    for number, waits, owner in _LOCK.findall(files.text(files.read_or_none(proc + "/locks", LOCKS_LIMIT) or b"")):
        if not waits:
            keeper = (number, int(owner[:12]))
        elif int(owner[:12]) == pid and keeper[0] == number and keeper[1] > 0:
            stat = read_stat(proc, keeper[1])
            return "process %d%s" % (keeper[1], " (%s)" % stat.comm if stat is not None else ", which is gone")
    return ""


def far_end(near: TcpSocket, tables: Sequence[bytes], pid: int, proc: str = "/proc") -> str:
    """``process 71 (python3)``; empty where the far end is of another node, or no process is seen to have it open.

    Both ends of a connection on one node are in its tables of sockets. The eldest process counts: a fork has what its
    parent has open.
    """
    for one in of_ports((near.remote_port,), tables) if near.state == ESTABLISHED else ():
        if one.inode and one.local == near.remote and one.remote == near.local:
            uid = files.owner("%s/%d" % (proc, pid))
            others = sorted(int(name) for name in files.list_folder(proc) if name.isdigit() and int(name) != pid)
            likely = (other for other in others if files.owner("%s/%d" % (proc, other)) == uid)
            owner = SocketOwners(proc).find([one.inode], likely).get(one.inode)
            stat = None if owner is None else read_stat(proc, owner)
            if owner is None or stat is None:
                return ""
            return "process %d (%s)%s" % (owner, stat.comm, RUNS if _runs(owner, proc) else "")
    return ""


def _runs(pid: int, proc: str) -> bool:
    folder = "%s/%d/task" % (proc, pid)
    stats = (files.read_or_none("%s/%s/stat" % (folder, thread)) for thread in files.list_folder(folder)[:THREADS])
    return any(stat is not None and stat.state == "R" for stat in (parse_stat(data or b"") for data in stats))
