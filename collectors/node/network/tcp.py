"""TCP as a job would use it: whether this node can listen, connect to itself, and reach the others."""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import List, Optional, Tuple

CONNECT_SECONDS = 3.0
"""Seconds; a dropped SYN is retransmitted after 1 s, so this covers two retransmissions. A healthy path needs none."""


def reason(error: OSError) -> str:
    """Error message of a failed call, in the kernel's words."""
    if isinstance(error, socket.timeout):
        return "no answer in %.0f s" % CONNECT_SECONDS
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return "%s (%s)" % (os.strerror(error.errno), errno.errorcode.get(error.errno, str(error.errno)))


def connect(host: str, port: int) -> Tuple[Optional[float], str]:
    """Seconds that a connect took, or why it failed (``refused``: the host answers, but no process listens)."""
    started = time.monotonic()
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return time.monotonic() - started, ""
    except ConnectionRefusedError:
        return None, "refused"
    except OSError as error:
        return None, reason(error)


def listen(port: int) -> Tuple[Optional[socket.socket], str]:
    """A socket that listens on a port (0: any) of every interface, or the reason why listening failed.

    Like PyTorch's store: IPv6 with mapped IPv4 if the node has IPv6, and address reuse, so that a port in TIME_WAIT
    counts as free.
    """
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 (others shall connect)
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # the kernel does not support this family
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(64)
        except OSError as error:
            listener.close()
            if family == socket.AF_INET6 and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue
            return None, reason(error)
        return listener, ""
    return None, "this node has neither IPv6 nor IPv4"


def loopback() -> str:
    """Connect to a port of this node over 127.0.0.1; return the reason if that failed, else an empty text."""
    listener, why = listen(0)
    if listener is None:
        return "cannot listen: " + why
    with listener:
        took, why = connect("127.0.0.1", listener.getsockname()[1])
    return "" if took is not None else why


def resolve(host: str) -> Tuple[List[str], str]:
    """Addresses to which this node resolves a name, or the reason why resolution failed."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return [], reason(error)
    return sorted({str(entry[4][0]) for entry in found}), ""
