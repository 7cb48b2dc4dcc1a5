"""Which process of this node is at the other end of a connection.

A rank that waits in a ``recv`` of its own program's waits for whoever is at the far end: that is another rank where
programs speak over plain sockets. Both ends of a connection on one node are in its tables of sockets; who has the other
one open, /proc/PID/fd tells. How many descriptors are looked at is bounded, and the waiting process' neighbours come
first.
"""

from __future__ import annotations

import os
from typing import Iterator, List, Optional, Sequence, Tuple

from collectors.node import files
from collectors.node.processes.procfs import parse_stat, read_stat
from collectors.node.processes.socket_tables import ESTABLISHED, TcpSocket, of_ports
from collectors.samples.stacks import RUNS

THREADS = 64
"""Threads of such a process that are looked at."""
LINKS = 20000
"""Descriptors that are looked at for one answer: some 20 ms."""


def holder(near: TcpSocket, tables: Sequence[bytes], pid: int, proc: str = "/proc") -> str:
    """``process 71 (python3)``; empty where the far end is of another node, or nobody is seen to have it open."""
    if near.state != ESTABLISHED:
        return ""
    for one in of_ports((near.remote_port,), tables):
        if one.inode and one.local == near.remote and one.remote == near.local:
            owner = _owner(one.inode, pid, proc)
            stat = None if owner is None else read_stat(proc, owner)
            if owner is None or stat is None:
                return ""
            return "process %d (%s)%s" % (owner, stat.comm, RUNS if _runs(owner, proc) else "")
    return ""


def _runs(pid: int, proc: str) -> bool:
    folder = "%s/%d/task" % (proc, pid)
    for thread in list(files.list_folder(folder))[:THREADS]:
        stat = parse_stat(files.read_or_none("%s/%s/stat" % (folder, thread)) or b"")
        if stat is not None and stat.state == "R":
            return True
    return False


def _owner(inode: int, pid: int, proc: str) -> Optional[int]:
    """The eldest process but ``pid`` that has this socket open: a fork has what its parent has."""
    left, wanted = LINKS, "socket:[%d]" % inode
    for other in _candidates(pid, proc):
        folder = "%s/%d/fd" % (proc, other)
        for name in files.list_folder(folder):
            left -= 1
            if left < 0:
                return None
            if files.link(folder + "/" + name) == wanted:
                return other
    return None


def _candidates(pid: int, proc: str) -> Iterator[int]:
    """Processes of the same owner: those that have the same parent before all others, each by age."""
    uid = _uid("%s/%d" % (proc, pid))
    mine = read_stat(proc, pid)
    near: List[Tuple[int, int]] = []
    far: List[Tuple[int, int]] = []
    for name in files.list_folder(proc):
        if not name.isdigit() or int(name) == pid or _uid("%s/%s" % (proc, name)) != uid:
            continue
        stat = read_stat(proc, int(name))
        if stat is not None:
            beside = mine is not None and stat.parent == mine.parent
            (near if beside else far).append((stat.start_ticks, int(name)))
    for _, other in [*sorted(near), *sorted(far)]:
        yield other


def _uid(folder: str) -> Optional[int]:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None
