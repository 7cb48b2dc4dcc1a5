"""Asks NCCL's RAS socket from where a rank is: in a container its ``localhost`` is not the node's.

Plain text over TCP (docs/userguide troubleshooting/ras.rst): commands in lines, an answer, the end. It is asked of NCCL
2.29 and newer alone, which answers in JSON.
"""

from __future__ import annotations

import base64
import errno
import socket
import time
from typing import Any, Dict, List

from collectors.node import watchdog
from collectors.node.processes.namespaces import in_network_of
from collectors.node.processes.procfs import read_stat, read_status
from collectors.node.processes.sockets import LISTEN, tcp_sockets
from collectors.node.wire import say
from collectors.samples.probes import RasAnswer

REQUEST = b"CLIENT PROTOCOL 2\nSET FORMAT json\nVERBOSE STATUS\n"
SECONDS = 12.0
"""RAS itself takes up to 10 s when ranks do not answer it."""
LIMIT = 32 << 20


def ask(pid: int, host: str, port: int) -> bytes:
    """All that the server says. Raises :class:`OSError`."""
    deadline = time.monotonic() + SECONDS
    parts: List[bytes] = []
    size = 0
    with connect(pid, host, port, SECONDS) as connection:
        connection.sendall(REQUEST)
        while size < LIMIT:
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            part = connection.recv(1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def connect(pid: int, host: str, port: int, timeout: float) -> socket.socket:
    """A connection as the rank would make it, to a listener of its own user on its own machine or container.

    The rank's user names the address, and this side may be root: nothing else is connected to. Raises
    :class:`OSError`, also where the rank's network namespace may not be entered, or the rank has ended.
    """
    status, started = read_status("/proc", pid), read_stat("/proc", pid)
    owners = [one.uid for one in tcp_sockets(pid, 1 << LISTEN, port=port)]
    strangers = [uid for uid in owners if status is None or uid != status.uid]
    if strangers:
        raise OSError(errno.EPERM, "port %d is listened on by uid %d, not by the rank's" % (port, strangers[0]))

    def connected() -> socket.socket:
        """Within the namespace: it is the one that was asked about if the pid is still the same process's."""
        again = read_stat("/proc", pid)
        if started is None or again is None or again.start_ticks != started.start_ticks:
            raise OSError(errno.ESRCH, "process %d has ended" % pid)
        return _connect(host, port, timeout)

    return in_network_of(pid, connected)


def _connect(host: str, port: int, timeout: float) -> socket.socket:
    for family, _, _, _, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            try:
                tried.bind((found[0], 0, *found[2:]))  # which the kernel lets us to an address of our own alone
            except OSError:
                continue
        return socket.create_connection((str(found[0]), port), timeout)
    raise OSError(errno.EPERM, "%s is no address of this machine, and only its own are asked" % host[:100])


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``pid``: the rank to ask from, ``host`` and ``port`` as it would reach them.

    Only an address of the rank's own machine is asked.
    """
    answer, why = b"", ""
    try:
        answer = ask(arguments["pid"], arguments["host"], arguments["port"])
    except socket.timeout:
        why = "no answer in %g s" % SECONDS
    except OSError as error:
        why = error.strerror or str(error)
    say(RasAnswer(base64.b64encode(answer).decode("ascii"), why))
