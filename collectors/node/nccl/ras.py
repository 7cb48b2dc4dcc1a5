"""Queries NCCL's RAS socket in a rank's network namespace: in a container, ``localhost`` is not the node's.

The protocol is plain text over TCP (docs/userguide troubleshooting/ras.rst): lines of commands, one answer, end of
connection. Only NCCL 2.29 and newer, which answers in JSON, is queried.
"""

from __future__ import annotations

import base64
import errno
import socket
from typing import Any, Dict

from collectors.node import watchdog
from collectors.node.processes.namespaces import in_network_of
from collectors.node.processes.procfs import read_stat, read_status
from collectors.node.processes.sockets import LISTEN, tcp_sockets
from collectors.node.wire import say
from collectors.samples.probes import RasAnswer

REQUEST = b"CLIENT PROTOCOL 2\nSET FORMAT json\nVERBOSE STATUS\n"
SECONDS = 12.0
"""RAS itself takes up to 10 s when ranks do not answer."""
LIMIT = 32 << 20


def ask(pid: int, host: str, port: int) -> bytes:
    """The server's whole answer, at most :data:`LIMIT` bytes. Raises :class:`OSError`."""
    with connect(pid, host, port, SECONDS) as connection, connection.makefile("rb") as answer:
        connection.sendall(REQUEST)
        return answer.read(LIMIT)


def connect(pid: int, host: str, port: int, timeout: float) -> socket.socket:
    """Connect from the rank's network namespace to a listener of the rank's user on its own machine or container.

    Nothing else is connected to, because the rank's user chooses the address and we may be root. Raises
    :class:`OSError`, also if the rank's network namespace may not be entered, or the rank has ended.
    """
    status, started = read_status("/proc", pid), read_stat("/proc", pid)
    owners = [listener.uid for listener in tcp_sockets(pid, 1 << LISTEN, port=port)]
    strangers = [uid for uid in owners if status is None or uid != status.uid]
    if strangers:
        raise OSError(errno.EPERM, "port %d is listened on by uid %d, not by the rank's" % (port, strangers[0]))

    def connected() -> socket.socket:
        """Runs in the namespace, which is the rank's if the pid was not reused."""
        again = read_stat("/proc", pid)
        if started is None or again is None or again.start_ticks != started.start_ticks:
            raise OSError(errno.ESRCH, "process %d has ended" % pid)
        return _connect(host, port, timeout)

    return in_network_of(pid, connected)


def _connect(host: str, port: int, timeout: float) -> socket.socket:
    for family, _, _, _, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            try:
                tried.bind((found[0], 0, *found[2:]))  # succeeds only for one of our own addresses
            except OSError:
                continue
        return socket.create_connection((str(found[0]), port), timeout)
    raise OSError(errno.EPERM, "%s is no address of this machine, and only its own are asked" % host[:100])


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``pid``: the rank, ``host`` and ``port``: the RAS address as the rank would use it.

    Only an address of the rank's own machine is queried.
    """
    answer, why = b"", ""
    try:
        answer = ask(arguments["pid"], arguments["host"], arguments["port"])
    except socket.timeout:
        why = "no answer in %g s" % SECONDS
    except OSError as error:
        why = error.strerror or str(error)
    say(RasAnswer(base64.b64encode(answer).decode("ascii"), why))
