"""Connections made where a process is: a container's ``localhost`` is not the node's.

A socket belongs to the network namespace in which it was made, so a thread of our own goes there (``setns`` moves the
calling thread alone), makes it and ends. Only root may; a process in our own namespace is reached by anybody.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import threading
from typing import Callable, List, Sequence, TypeVar, Union

from collectors.node.files import link, read_or_none
from collectors.node.processes.procfs import parse_status

_CLONE_NEWNET = 0x40000000

T = TypeVar("T")

Address = Union["tuple[str, int]", str]
"""Host and port, or the path of a Unix socket."""


def is_elsewhere(pid: int, proc: str = "/proc") -> bool:
    """Whether a process has a network namespace of its own; False also where that may not be known."""
    theirs, ours = link("%s/%d/ns/net" % (proc, pid)), link(proc + "/self/ns/net")
    return bool(theirs and ours and theirs != ours)


def connect(pid: int, address: Address, timeout: float, *, own: bool = False) -> socket.socket:
    """A connection as the process would make it; ``own``: only to an address of its own machine or container.

    Raises :class:`OSError`, also where its namespace may not be entered, or where a path leads to another's socket.
    """
    if isinstance(address, str):
        made_here = _connect_unix(address, timeout)
        status = parse_status(read_or_none("/proc/%d/status" % pid) or b"", pid)
        if status is None or _listener(made_here) != status.uid:  # the path may lead to who serves root
            made_here.close()
            raise OSError(errno.EPERM, "the socket is not the process's own", address)
        return made_here
    return within(pid, lambda: _connect(address, timeout, own))


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


def _connect(address: "tuple[str, int]", timeout: float, own: bool) -> socket.socket:
    if not own:
        return socket.create_connection(address, timeout)
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


def _connect_unix(address: str, timeout: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        made.connect(address)
    except OSError:
        made.close()
        raise
    return made


def _listener(connection: socket.socket) -> int:
    """User id of who listens at the other end of a Unix socket: struct ucred (pid, uid, gid) of unix(7)."""
    return int(struct.unpack("iii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])


def _enter(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call = ctypes.CDLL(None, use_errno=True)
        if call.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, "its network namespace may not be entered: " + os.strerror(number))
    finally:
        os.close(descriptor)
