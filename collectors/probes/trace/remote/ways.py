"""By which way a running rank can be asked for a trace: torch's debug server, or dynolog's daemon.

torch.distributed.debug (tried with torch 2.13) serves each rank's own handlers, ``torch_profile`` among them, on a port
of that process; its threads are called ``pt_workerserver``, and no process without one is spoken to: other listeners of
a rank (NCCL's bootstrap, gloo, a store) are no web servers. A rank with KINETO_USE_DAEMON registers with dynolog, which
listens on port 1778 and is asked by ``dyno gputrace``.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
from typing import Dict, List, NamedTuple, Set

from collectors.node import environ
from collectors.node.files import link, read_or_none

SERVER, DYNOLOG = "debug server", "dynolog"
HANDLER = "torch_profile"
THREAD = b"pt_workerserver"
DYNO_PORT = 1778
PATIENCE = 2.0
"""Seconds for a server of this machine to say what it has."""

_LISTENER = re.compile(rb"^ *\d+: 0+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A(?: +\S+){5} +(\d+)", re.MULTILINE)
_ANY_LISTENER = re.compile(rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A ", re.MULTILINE)
_SOCKET = re.compile(r"socket:\[(\d+)\]$")


class Way(NamedTuple):
    """How one rank can be asked; ``way`` is empty when it cannot be, and ``why`` says why."""

    rank: int
    pid: int
    way: str
    port: int
    """Of its debug server."""
    why: str


def find(rank: int, pid: int) -> Way:
    """The way to one rank."""
    if not os.path.isdir("/proc/%d" % pid):
        return Way(rank, pid, "", 0, "no such process")
    why = "neither a debug server (torch.distributed.debug) nor KINETO_USE_DAEMON"
    if _has_server(pid):
        for port in sorted(listeners(pid)):
            if HANDLER in handlers(port):
                return Way(rank, pid, SERVER, port, "")
        why = "its debug server has no %s, or may not be found without root" % HANDLER
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return Way(rank, pid, "", 0, "%s; its environment may not be read" % why)
    if not environ.parse(data).get("KINETO_USE_DAEMON", ""):
        return Way(rank, pid, "", 0, why)
    if shutil.which("dyno") is None:
        return Way(rank, pid, "", 0, "KINETO_USE_DAEMON is set, but this node has no dyno in its PATH")
    if not _listens(DYNO_PORT):
        return Way(rank, pid, "", 0, "KINETO_USE_DAEMON is set, but no dynolog listens on port %d" % DYNO_PORT)
    return Way(rank, pid, DYNOLOG, DYNO_PORT, "")


def _has_server(pid: int) -> bool:
    folder = "/proc/%d/task" % pid
    try:
        threads = os.listdir(folder)
    except OSError:
        return False
    return any((read_or_none("%s/%s/comm" % (folder, thread)) or b"").strip() == THREAD for thread in threads)


def listeners(pid: int) -> Set[int]:
    """Ports on which a process itself listens at every address, which torch's server does and gloo and NCCL do not."""
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return set()
    found = (_SOCKET.match(link("%s/%s" % (folder, name))) for name in names)
    held = {match.group(1).encode() for match in found if match}
    tables: List[bytes] = [read_or_none("/proc/%d/net/%s" % (pid, name)) or b"" for name in ("tcp", "tcp6")]
    return {int(port, 16) for table in tables for port, inode in _LISTENER.findall(table) if inode in held}


def handlers(port: int) -> List[str]:
    """What a debug server on this machine serves; nothing when there is none."""
    connection = http.client.HTTPConnection("localhost", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/handler/")
        answer = connection.getresponse()
        names = json.loads(answer.read(1 << 16).decode("utf-8", "replace")) if answer.status == 200 else []
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return []
    finally:
        connection.close()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _listens(port: int) -> bool:
    tables: Dict[str, bytes] = {name: read_or_none("/proc/net/" + name) or b"" for name in ("tcp", "tcp6")}
    return any(int(found, 16) == port for table in tables.values() for found in _ANY_LISTENER.findall(table))
