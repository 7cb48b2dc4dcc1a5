"""How much the TCP connections of one process have carried, as the kernel counts it for each.

A download or an upload by ``recv`` and ``send`` is in no figure of /proc/PID/io, which counts ``read`` and ``write``
alone. The kernel tells of every socket of a network namespace over netlink (sock_diag(7); ``struct inet_diag_msg`` and
``tcp_info`` of linux/inet_diag.h and linux/tcp.h; the counts are there since Linux 4.1 and 4.2). Anybody may ask.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from collectors.node.netns import is_elsewhere
from collectors.node.socket_tables import held_sockets

LIMIT = 32 << 20
"""Bytes of one answer: some 100,000 sockets."""
PATIENCE = 1.0
"""Seconds to wait for the kernel."""
SHORTEST = 0.05
"""Seconds in which a stream of data is seen to go on."""
SHARED = 0.1
"""Seconds for which one list of the node's connections serves every rank."""
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG; the module socket has no name for it
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2  # SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_INFO = 2  # INET_DIAG_INFO
_ESTABLISHED = 1 << 1
_HEAD = struct.Struct("=IHHII")
_INODE = struct.Struct("=I")
_COUNTS = struct.Struct("=QQ")
_INODE_AT, _ATTRIBUTES_AT, _COUNTS_AT = 68, 72, 120
"""Offsets in struct inet_diag_msg of the inode and of what follows it; in struct tcp_info of ``bytes_acked``."""


class Listing(NamedTuple):
    """The connections of this network namespace, as they were at one moment."""

    at: float
    """Of the clock that never goes back."""
    carried: Dict[int, int]
    """Bytes sent and received, by inode."""


class ConnectionLists:
    """Lists the connections of the node, once for all ranks that are looked at together."""

    def __init__(self) -> None:
        self._latest: Optional[Listing] = None

    def listed(self, since: float = float("-inf")) -> Optional[Listing]:
        """A list that is no older than :data:`SHARED` seconds, and than ``since``; None where there is none to have."""
        now = time.monotonic()
        latest = self._latest
        if latest is not None and latest.at >= max(since, now - SHARED):
            return latest
        known: Dict[int, int] = {}
        try:
            for family in (socket.AF_INET, socket.AF_INET6):
                known.update(_of_family(family))
        except (AttributeError, OSError):
            return None  # no netlink here, or it is refused in this container
        self._latest = Listing(now, known)
        return self._latest


CONNECTIONS = ConnectionLists()
"""Those of the node on which this runs."""


class CarriedBytes:
    """What a process's connections carry from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = carried(pid)

    def told(self) -> Tuple[Optional[int], Optional[float]]:
        """Bytes so far, and bytes per second since it was made where that is long enough ago."""
        began, before = self._before or (float("-inf"), None)
        found = carried(self._pid, since=began + SHORTEST)
        if found is None:
            return None, None
        at, now = found
        if before is None or at - began < SHORTEST:
            return now, None
        return now, round(max(0, now - before) / (at - began), 1)


def carried(pid: int, proc: str = "/proc", since: float = float("-inf")) -> Optional[Tuple[float, int]]:
    """When, and how many bytes its open connections had sent and received since they were made.

    None where that is not told: its sockets may not be seen, or are of another network namespace than ours. The list
    of connections is not older than ``since``, if that is not to come.
    """
    if is_elsewhere(pid, proc):
        return None
    inodes = held_sockets(proc, pid)
    listing = CONNECTIONS.listed(since) if inodes else None
    if listing is None:
        return None
    return listing.at, sum(listing.carried[inode] for inode in inodes if inode in listing.carried)


def _of_family(family: int) -> Iterator[Tuple[int, int]]:
    """(inode, bytes) of every established connection."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asked:
        asked.settimeout(PATIENCE)
        wanted = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        asked.send(_HEAD.pack(_HEAD.size + len(wanted), _BY_FAMILY, _DUMP, 1, 0) + wanted)
        left = LIMIT
        while left > 0:
            answer = asked.recv(1 << 17)
            left -= len(answer)
            for kind, body in parts(answer):
                if kind in (_DONE, _ERROR):
                    return
                told = counted(body) if kind == _BY_FAMILY else None
                if told is not None:
                    yield told


def parts(answer: bytes) -> Iterator[Tuple[int, bytes]]:
    """(kind, body) of each netlink message in what one read brought; what is cut off ends it."""
    at = 0
    while at + _HEAD.size <= len(answer):
        length, kind = _HEAD.unpack_from(answer, at)[:2]
        if length < _HEAD.size or at + length > len(answer):
            return
        yield kind, answer[at + _HEAD.size : at + length]
        at += (length + 3) & ~3


def counted(body: bytes) -> Optional[Tuple[int, int]]:
    """(inode, bytes sent and acknowledged, and received) of a ``struct inet_diag_msg``; None where it has no count."""
    if len(body) < _ATTRIBUTES_AT:
        return None
    at = _ATTRIBUTES_AT
    while at + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if length < 4:
            return None
        if kind == _INFO and length - 4 >= _COUNTS_AT + _COUNTS.size <= len(body) - at - 4:
            sent, received = _COUNTS.unpack_from(body, at + 4 + _COUNTS_AT)
            return _INODE.unpack_from(body, _INODE_AT)[0], sent + received
        at += (length + 3) & ~3
    return None
