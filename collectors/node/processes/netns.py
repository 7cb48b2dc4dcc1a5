"""Connections made where a process is: a container's ``localhost`` is not the node's.

A socket belongs to the network namespace in which it was made, so a thread of our own goes there (``setns`` moves the
calling thread alone), makes it and ends. Only root may; a process in our own namespace is reached by anybody.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import threading
from typing import Callable, List, Sequence, Tuple, TypeVar

from collectors.node.files import link
from collectors.node.processes.procfs import read_status
from collectors.node.processes.socket_tables import read_tables

_CLONE_NEWNET = 0x40000000

_LISTENER = re.compile(rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A \S+ \S+ \S+ +(\d{1,10}) ", re.M)
"""Port and user of a listening socket in /proc/net/tcp."""

T = TypeVar("T")


def is_elsewhere(pid: int, proc: str = "/proc") -> bool:
    """Whether a process has a network namespace of its own; False also where that may not be known."""
    theirs, ours = link("%s/%d/ns/net" % (proc, pid)), link(proc + "/self/ns/net")
    return bool(theirs and ours and theirs != ours)


def connect(pid: int, address: Tuple[str, int], timeout: float) -> socket.socket:
    """A connection as the process would make it, to a listener of its own user on its own machine or container.

    A process's user names the address, and this side may be root: nothing else is connected to. Raises
    :class:`OSError`, also where the process's network namespace may not be entered.
    """
    status = read_status("/proc", pid)
    rows = (row for table in read_tables("/proc/%d/net" % pid) for row in _LISTENER.findall(table))
    owners = [int(uid) for port, uid in rows if int(port, 16) == address[1]]
    strangers = [uid for uid in owners if status is None or uid != status.uid]
    if strangers:
        raise OSError(errno.EPERM, "port %d is listened on by uid %d, not by the rank's" % (address[1], strangers[0]))
    return within(pid, lambda: _connect(address, timeout))


def within(pid: int, make: Callable[[], T], proc: str = "/proc") -> T:
    """What ``make`` makes in the network namespace of a process: a socket stays there, whoever uses it.

    Raises :class:`OSError`, also where that namespace may not be entered.
    """
    if not is_elsewhere(pid, proc):
        return make()
    made: List[T] = []
    failed: List[OSError] = []

    def go() -> None:
        try:
            _enter("%s/%d/ns/net" % (proc, pid))
            made.append(make())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _connect(address: Tuple[str, int], timeout: float) -> socket.socket:
    host, port = address
    for family, _, _, _, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if _is_own(family, found):
            return socket.create_connection((str(found[0]), port), timeout)
    raise OSError(errno.EPERM, "%s is no address of this machine, and only its own are asked" % host[:100])


def _is_own(family: int, found: Sequence[object]) -> bool:
    """Whether an address is one of this network namespace's: only to those a socket can be bound."""
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        try:
            tried.bind((found[0], 0, *found[2:]))
        except OSError:
            return False
    return True


def _enter(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call = ctypes.CDLL(None, use_errno=True)
        if call.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, "its network namespace may not be entered: " + os.strerror(number))
    finally:
        os.close(descriptor)
