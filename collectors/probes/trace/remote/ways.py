"""Whether a running rank can be asked for a trace by dynolog.

A rank with KINETO_USE_DAEMON registers with dynolog, which listens on port 1778 and is asked by ``dyno gputrace``.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from collectors.node.files import read_or_none
from collectors.node.processes import environ
from collectors.node.processes.socket_tables import listening, read_tables

DYNOLOG = "dynolog"
DYNO_PORT = 1778


class TraceWay(NamedTuple):
    """How one rank can be asked; ``way`` is empty when it cannot be, and ``why`` says why."""

    rank: int
    pid: int
    way: str
    why: str


def find(rank: int, pid: int) -> TraceWay:
    """The way to one rank."""
    if not os.path.isdir("/proc/%d" % pid):
        return TraceWay(rank, pid, "", "no such process")
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return TraceWay(rank, pid, "", "its environment may not be read")
    if not environ.parse(data).get("KINETO_USE_DAEMON", ""):
        return TraceWay(rank, pid, "", "it was started without KINETO_USE_DAEMON")
    if shutil.which("dyno") is None:
        return TraceWay(rank, pid, "", "KINETO_USE_DAEMON is set, but this node has no dyno in its PATH")
    if not _listens(DYNO_PORT):
        return TraceWay(rank, pid, "", "KINETO_USE_DAEMON is set, but no dynolog listens on port %d" % DYNO_PORT)
    return TraceWay(rank, pid, DYNOLOG, "")


def _listens(port: int) -> bool:
    return any(found == port for found, _ in listening(read_tables("/proc/net")))
