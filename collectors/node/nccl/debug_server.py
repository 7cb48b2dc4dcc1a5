"""Speaks to the debug server that torch runs in a rank (``torch.distributed.debug``, ``TORCH_WORKER_SERVER_SOCKET``).

It is HTTP on a port of the rank's own at every address, or on a Unix socket; ``GET /handler/`` lists what it serves, a
``POST`` asks (tried with torch 2.13). Its threads are called ``pt_workerserver``, and no process without one is spoken
to: other listeners of a rank (NCCL's bootstrap, gloo, a store) are no web servers.
"""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, List, NamedTuple, Optional

from collectors.node.files import read_or_none, text
from collectors.node.processes import netns
from collectors.node.processes.rooted import seen_by
from collectors.node.processes.socket_tables import LISTEN, held_sockets, read_tables, sockets
from collectors.node.processes.worker_server import has_server

if TYPE_CHECKING:  # HTTP brings TLS and mail along: 8 MB that most ranks have no use for, as few run a server
    from http.client import HTTPConnection

SECONDS = 2.0
"""For a server of this machine to say what it has."""
ROUNDS = 2
"""Times that an address is asked which says nothing in time, if no other has answered."""
LISTING_LIMIT = 1 << 16

_UNIX_LISTENER = re.compile(r"^[0-9a-f]{8,16}: [0-9A-F]{8} 0{8} 00010000 0001 01 +(\d+) (/[^\n]+)$", re.MULTILINE)


class Server(NamedTuple):
    """The debug server of one rank."""

    pid: int
    address: netns.Address
    handlers: List[str]


def find(pid: int, wanted: str = "") -> Optional[Server]:
    """The server of a process, or the one of its servers that has the handler ``wanted``; None where there is none."""
    if not has_server(pid):
        return None
    unasked = addresses(pid)
    for _ in range(ROUNDS):
        slow = []
        for address in unasked:
            try:
                names = handlers(pid, address)
            except socket.timeout:
                slow.append(address)  # another listener, or a machine that stood still meanwhile
                continue
            if names and (not wanted or wanted in names):
                return Server(pid, address, names)
        unasked = slow
    return None


def addresses(pid: int) -> List[netns.Address]:
    """Where a process listens at every address, which torch's server does and gloo and NCCL do not, or by path."""
    held = held_sockets("/proc", pid)
    tables = read_tables("/proc/%d/net" % pid)
    ports = {one.local_port for one in sockets(tables) if one.state == LISTEN and one.everywhere and one.inode in held}
    unix = text(read_or_none("/proc/%d/net/unix" % pid, 1 << 24) or b"")
    paths = {path for inode, path in _UNIX_LISTENER.findall(unix) if int(inode) in held}
    return [*(("localhost", port) for port in sorted(ports)), *(seen_by(pid, path) for path in sorted(paths))]


def handlers(pid: int, address: netns.Address) -> List[str]:
    """What a debug server serves; nothing when there is none at this address.

    Raises :class:`socket.timeout` when nothing is said in time.
    """
    from http.client import HTTPException

    try:
        connection = opened(pid, address, SECONDS)
    except socket.timeout:
        raise
    except OSError:
        return []
    try:
        connection.request("GET", "/handler/")
        answer = connection.getresponse()
        names = json.loads(answer.read(LISTING_LIMIT).decode("utf-8", "replace")) if answer.status == 200 else []
    except socket.timeout:
        raise
    except (OSError, HTTPException, ValueError, RecursionError):
        return []
    finally:
        connection.close()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def opened(pid: int, address: netns.Address, timeout: float) -> HTTPConnection:
    """A connection to a server, for requests by path. Raises :class:`OSError`."""
    from http.client import HTTPConnection

    connection = HTTPConnection("localhost", timeout=timeout)
    connection.sock = netns.connect(pid, address, timeout)
    return connection


def ask(server: Server, request: str, timeout: float, limit: int) -> bytes:
    """What a handler (``fr_trace_json``, with arguments after ``?``) answers, ``limit`` bytes at most.

    Raises :class:`OSError` with the reason, also where the server refuses.
    """
    from http.client import HTTPException

    connection = opened(server.pid, server.address, timeout)
    try:
        connection.request("POST", "/handler/" + request)
        answer = connection.getresponse()
        data = answer.read(limit)
    except (HTTPException, ValueError) as error:
        raise OSError(0, "the debug server does not speak HTTP: %s" % error) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(0, "the debug server answers %d: %s" % (answer.status, text(data[:200])))
    return data
