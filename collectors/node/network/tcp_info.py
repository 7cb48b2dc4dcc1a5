"""What the kernel tells of the TCP connections of one process: how much they carried, and what nobody acknowledges.

A download or an upload by ``recv`` and ``send`` is in no figure of /proc/PID/io, which counts ``read`` and ``write``
alone. The kernel tells of every socket of a network namespace over netlink (sock_diag(7); ``struct inet_diag_msg`` and
``tcp_info`` of linux/inet_diag.h and linux/tcp.h; the counts are there since Linux 4.1 and 4.2). Anybody may ask in our
own namespace; in a container's, who may enter it. Where the far end does not acknowledge what was sent, it is sent
again after 0.2 s, and each time after twice as long: of a process that is stopped the kernel still acknowledges, so
that this tells of the network or of a machine that is gone.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import link
from collectors.node.processes.netns import is_elsewhere, within
from collectors.node.processes.socket_tables import held_sockets
from collectors.samples.stacks import QueuedPath

LIMIT = 32 << 20
"""Bytes of one answer: some 100,000 sockets."""
PATIENCE = 1.0
"""Seconds to wait for the kernel."""
SHORTEST = 0.05
"""Seconds in which a stream of data is seen to go on."""
SHARED = 0.1
"""Seconds for which one list of the node's connections serves every rank."""
UNANSWERED = 4
"""Times that something was sent again from which on nobody answers there: three seconds."""
NAMESPACES = 256
"""Network namespaces of which a list is kept."""
PORTS = 64
"""Connections of a process to other machines up to which their ports are told."""
QUEUES = 8
"""Of those that have something to send, so many are told."""

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG; the module socket has no name for it
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2  # SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_INFO = 2  # INET_DIAG_INFO
_ESTABLISHED = 1 << 1
_SENDS_AGAIN = 1  # idiag_timer of a connection that waits to send once more what was not acknowledged
_NETLINK = struct.Struct("=IHHII")
_SOCKET = struct.Struct("=B x BB 4s 16s 16s 28x I")
"""Of struct inet_diag_msg: family, timer and how often it ran out, both ports (big endian), both addresses, inode."""
_ATTRIBUTE = struct.Struct("=HH")
_COUNTS_AT, _COUNTS = 120, struct.Struct("=QQ")
_QUEUE_AT, _QUEUE = 144, struct.Struct("=I 20x QQQ")
"""Of struct tcp_info: ``bytes_acked`` and ``bytes_received``; ``notsent_bytes``, and ``busy_time``, ``rwnd_limited``
and ``sndbuf_limited`` in microseconds (since Linux 4.10)."""


class Connection(NamedTuple):
    """One established connection."""

    inode: int
    carried: int
    """Bytes sent and acknowledged, and received."""
    port: Optional[int]
    """At this end; None where the other end is on this machine, too, by the loopback."""
    unanswered: str = ""
    """``10.0.0.7:40001``, to which the same was sent :data:`UNANSWERED` times and more; empty for one that answers."""
    queued: Optional[QueuedPath] = None
    """What waits to be sent to another machine; None where nothing does, or an older kernel does not tell."""
    near: str = ""
    """This end's address, where it has a ``port``."""


class Listing(NamedTuple):
    """The connections of one network namespace by inode, as they were at one moment of the monotonic clock."""

    at: float
    connections: Dict[int, Connection]


class ConnectionLists:
    """Lists the connections of a network namespace, once for all its ranks that are looked at together."""

    def __init__(self) -> None:
        self._latest: Dict[str, Listing] = {}

    def listed(self, pid: int, since: float = float("-inf"), proc: str = "/proc") -> Optional[Listing]:
        """A list of where this process is, that is no older than :data:`SHARED` seconds, and than ``since``.

        None where there is none to have: no netlink, or a namespace that may not be entered.
        """
        now = time.monotonic()
        namespace = link("%s/%d/ns/net" % (proc, pid)) if is_elsewhere(pid, proc) else ""
        latest = self._latest.get(namespace)
        if latest is not None and latest.at >= max(since, now - SHARED):
            return latest
        known: Dict[int, Connection] = {}
        try:
            for family in (socket.AF_INET, socket.AF_INET6):
                known.update((one.inode, one) for one in _of_family(family, pid, proc))
        except (AttributeError, OSError):
            return None  # no netlink here, or it is refused in this container
        if len(self._latest) >= NAMESPACES:
            self._latest.clear()
        self._latest[namespace] = made = Listing(now, known)
        return made


CONNECTIONS = ConnectionLists()
"""Those of the node on which this runs, and of the containers on it."""


class TrafficTold(NamedTuple):
    """What a look tells of a process's connections, in the order of the last fields of a :class:`StackDump`."""

    carried: Optional[int] = None
    carrying: Optional[float] = None
    ports: List[int] = []  # noqa: RUF012 (never written to)
    unanswered: List[str] = []  # noqa: RUF012 (never written to)
    queued: List[QueuedPath] = []  # noqa: RUF012 (never written to)
    addresses: List[str] = []  # noqa: RUF012 (never written to)


class CarriedBytes:
    """What a process's connections carry from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began, self._before = carried(pid)

    def told(self) -> TrafficTold:
        """What they have carried so far, and since this was made where that is long enough ago."""
        at, now = carried(self._pid, since=self._began + SHORTEST)
        if now.carried is None or self._before.carried is None or at - self._began < SHORTEST:
            return now
        return now._replace(carrying=round(max(0, now.carried - self._before.carried) / (at - self._began), 1))


def carried(pid: int, proc: str = "/proc", since: float = float("-inf")) -> Tuple[float, TrafficTold]:
    """What its open connections have carried by a moment of the monotonic clock.

    Nothing is told, and the moment is long ago, where its sockets may not be seen, or are in a network namespace that
    may not be entered. The list of connections is not older than ``since``, if that is not to come.
    """
    inodes = held_sockets(proc, pid)
    listing = CONNECTIONS.listed(pid, since, proc) if inodes else None
    if listing is None:
        return float("-inf"), TrafficTold()
    mine = [listing.connections[inode] for inode in inodes if inode in listing.connections]
    outward = [one for one in mine if one.port is not None]
    ports = sorted({one.port for one in outward if one.port is not None})
    told = 0 < len(ports) <= PORTS
    queued = sorted((one.queued for one in mine if one.queued is not None), key=lambda one: -one.unsent)
    return listing.at, TrafficTold(
        carried=sum(one.carried for one in mine),
        ports=ports if told else [],
        unanswered=sorted({one.unanswered for one in mine if one.unanswered})[:PORTS],
        queued=queued[:QUEUES],
        addresses=sorted({one.near for one in outward})[:PORTS] if told and is_elsewhere(pid, proc) else [],
    )


# --- netlink ----------------------------------------------------------------------------------------------------------


def _of_family(family: int, pid: int, proc: str = "/proc") -> Iterator[Connection]:
    """Every established connection of the network namespace in which this process is."""
    with within(pid, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG), proc) as asked:
        asked.settimeout(PATIENCE)
        wanted = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        asked.send(_NETLINK.pack(_NETLINK.size + len(wanted), _BY_FAMILY, _DUMP, 1, 0) + wanted)
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
    while at + _NETLINK.size <= len(answer):
        length, kind = _NETLINK.unpack_from(answer, at)[:2]
        if length < _NETLINK.size or at + length > len(answer):
            return
        yield kind, answer[at + _NETLINK.size : at + length]
        at += (length + 3) & ~3


def counted(body: bytes) -> Optional[Connection]:
    """The connection of a ``struct inet_diag_msg``; None where it has no count."""
    info = _info(body)
    if info is None:
        return None
    family, timer, again, ports, near, far, inode = _SOCKET.unpack_from(body)
    own, other = struct.unpack(">HH", ports)
    ends = [_address(family, raw) for raw in (near, far)]
    far_end = ("[%s]:%d" if ":" in ends[1] else "%s:%d") % (ends[1], other)
    leaves = not (ends[1].startswith("127.") or ends[1] == "::1")
    acked, received = _COUNTS.unpack_from(info, _COUNTS_AT)
    queued = None
    if leaves and len(info) >= _QUEUE_AT + _QUEUE.size:
        unsent, busy, by_window, by_buffer = _QUEUE.unpack_from(info, _QUEUE_AT)
        if unsent:
            queued = QueuedPath(own, far_end, acked, max(0, busy - by_window - by_buffer) / 1e6, unsent)
    return Connection(
        inode=inode,
        carried=acked + received,
        port=own if leaves else None,
        unanswered=far_end if timer == _SENDS_AGAIN and again >= UNANSWERED else "",
        queued=queued,
        near=ends[0] if leaves else "",
    )


def _info(body: bytes) -> Optional[bytes]:
    """The ``struct tcp_info`` among the attributes of a message; None where it has none with counts."""
    at = _SOCKET.size
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            return None
        info = body[at + _ATTRIBUTE.size : at + length]
        if kind == _INFO and len(info) >= _COUNTS_AT + _COUNTS.size:
            return info
        at += (length + 3) & ~3
    return None


def _address(family: int, raw: bytes) -> str:
    """An address; one of IPv4 that is written as one of IPv6 is one of IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)
