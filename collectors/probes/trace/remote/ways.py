"""By which way a running rank can be asked for a trace: torch's debug server, or dynolog's daemon.

torch.distributed.debug (tried with torch 2.13) serves each rank's own handlers, ``torch_profile`` among them (see
``collectors.node.nccl.debug_server``). A rank with KINETO_USE_DAEMON registers with dynolog, which
listens on port 1778 and is asked by ``dyno gputrace``.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from collectors.node.files import read_or_none
from collectors.node.nccl import debug_server
from collectors.node.processes import environ
from collectors.node.processes.socket_tables import listening, read_tables
from collectors.node.processes.worker_server import has_server

SERVER, DYNOLOG = "debug server", "dynolog"
HANDLER = "torch_profile"
DYNO_PORT = 1778


class TraceWay(NamedTuple):
    """How one rank can be asked; ``way`` is empty when it cannot be, and ``why`` says why."""

    rank: int
    pid: int
    way: str
    port: int
    """Of its debug server; 0 where that is a Unix socket."""
    why: str
    path: str = ""
    """Of that socket."""


def find(rank: int, pid: int) -> TraceWay:
    """The way to one rank."""
    if not os.path.isdir("/proc/%d" % pid):
        return TraceWay(rank, pid, "", 0, "no such process")
    why = "neither a debug server (torch.distributed.debug) nor KINETO_USE_DAEMON"
    if has_server(pid):
        server = debug_server.find(pid, HANDLER)
        if server is not None:
            at = server.address
            return (
                TraceWay(rank, pid, SERVER, 0, "", at)
                if isinstance(at, str)
                else TraceWay(rank, pid, SERVER, at[1], "")
            )
        why = "its debug server has no %s, or may not be found without root" % HANDLER
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return TraceWay(rank, pid, "", 0, "%s; its environment may not be read" % why)
    if not environ.parse(data).get("KINETO_USE_DAEMON", ""):
        return TraceWay(rank, pid, "", 0, why)
    if shutil.which("dyno") is None:
        return TraceWay(rank, pid, "", 0, "KINETO_USE_DAEMON is set, but this node has no dyno in its PATH")
    if not _listens(DYNO_PORT):
        return TraceWay(rank, pid, "", 0, "KINETO_USE_DAEMON is set, but no dynolog listens on port %d" % DYNO_PORT)
    return TraceWay(rank, pid, DYNOLOG, DYNO_PORT, "")


def _listens(port: int) -> bool:
    return any(found == port for found, _ in listening(read_tables("/proc/net")))
