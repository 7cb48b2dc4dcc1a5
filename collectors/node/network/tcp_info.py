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
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG; the module socket has no name for it
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2  # SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_INFO = 2  # INET_DIAG_INFO
_ESTABLISHED = 1 << 1
_SENDS_AGAIN = 1
"""``idiag_timer`` of a connection that waits to send once more what was not acknowledged."""
UNANSWERED = 4
"""Times that something was sent again from which on nobody answers there: three seconds."""
NAMESPACES = 256
"""Network namespaces of which a list is kept."""
PORTS = 64
"""Connections of a process to other machines up to which their ports are told."""
QUEUES = 8
"""Of those that have something to send, so many are told."""
_HEAD = struct.Struct("=IHHII")
_INODE = struct.Struct("=I")
_COUNTS = struct.Struct("=QQ")
_UNSENT = struct.Struct("=I")
_TIMES = struct.Struct("=QQQ")
_PORT = struct.Struct(">H")
_TIMER_AT, _AGAIN_AT = 2, 3
_PORT_AT, _FAR_PORT_AT, _NEAR_AT, _FAR_AT = 4, 6, 8, 24
_INODE_AT, _ATTRIBUTES_AT, _COUNTS_AT = 68, 72, 120
_UNSENT_AT, _TIMES_AT = 144, 168
"""Offsets in struct inet_diag_msg of the timer and how often it ran out, of the near port and the far one, of both
addresses, of the inode and of what follows it; in struct tcp_info of ``bytes_acked``, of ``notsent_bytes``, and of
``busy_time``, ``rwnd_limited`` and ``sndbuf_limited``, in microseconds."""


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
    """The connections of one network namespace, as they were at one moment."""

    at: float
    """Of the clock that never goes back."""
    connections: Dict[int, Connection]
    """By inode."""


class ProcessTraffic(NamedTuple):
    """What the connections of one process have carried at one moment."""

    at: float
    carried: int
    """Bytes sent and received since they were made."""
    ports: List[int]
    """This end's, of connections to other machines; empty where these are more than :data:`PORTS`."""
    unanswered: List[str]
    """Far ends that acknowledge nothing, at most :data:`PORTS`."""
    queued: List[QueuedPath]
    """Connections that have more to send than they get rid of, at most :data:`QUEUES`, those with the most."""
    addresses: List[str]
    """This end's, of the connections with these ports, where the process is not in our network namespace."""


class TrafficTold(NamedTuple):
    """What a look tells of it, in the order of the last fields of a :class:`StackDump`."""

    carried: Optional[int] = None
    carrying: Optional[float] = None
    ports: List[int] = []  # noqa: RUF012 (never written to)
    unanswered: List[str] = []  # noqa: RUF012 (never written to)
    queued: List[QueuedPath] = []  # noqa: RUF012 (never written to)
    addresses: List[str] = []  # noqa: RUF012 (never written to)


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


class CarriedBytes:
    """What a process's connections carry from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = carried(pid)

    def told(self) -> TrafficTold:
        """What they have carried so far, and since this was made where that is long enough ago."""
        before = self._before
        began = float("-inf") if before is None else before.at
        now = carried(self._pid, since=began + SHORTEST)
        if now is None:
            return TrafficTold()
        rate = None
        if before is not None and now.at - began >= SHORTEST:
            rate = round(max(0, now.carried - before.carried) / (now.at - began), 1)
        return TrafficTold(now.carried, rate, now.ports, now.unanswered, now.queued, now.addresses)


def carried(pid: int, proc: str = "/proc", since: float = float("-inf")) -> Optional[ProcessTraffic]:
    """What its open connections have carried so far.

    None where that is not told: its sockets may not be seen, or are in a network namespace that may not be entered. The
    list of connections is not older than ``since``, if that is not to come.
    """
    inodes = held_sockets(proc, pid)
    listing = CONNECTIONS.listed(pid, since, proc) if inodes else None
    if listing is None:
        return None
    mine = [listing.connections[inode] for inode in inodes if inode in listing.connections]
    ports = sorted({one.port for one in mine if one.port is not None})
    silent = sorted({one.unanswered for one in mine if one.unanswered})[:PORTS]
    carries = sum(one.carried for one in mine)
    queued = sorted((one.queued for one in mine if one.queued is not None), key=lambda one: -one.unsent)[:QUEUES]
    told = 0 < len(ports) <= PORTS
    addresses = sorted({one.near for one in mine if one.port is not None}) if told and is_elsewhere(pid, proc) else []
    return ProcessTraffic(listing.at, carries, ports if told else [], silent, queued, addresses[:PORTS])


def _of_family(family: int, pid: int, proc: str = "/proc") -> Iterator[Connection]:
    """Every established connection of the network namespace in which this process is."""
    with within(pid, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG), proc) as asked:
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


def counted(body: bytes) -> Optional[Connection]:
    """The connection of a ``struct inet_diag_msg``; None where it has no count."""
    if len(body) < _ATTRIBUTES_AT:
        return None
    at = _ATTRIBUTES_AT
    while at + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if length < 4:
            return None
        if kind == _INFO and length - 4 >= _COUNTS_AT + _COUNTS.size <= len(body) - at - 4:
            sent, received = _COUNTS.unpack_from(body, at + 4 + _COUNTS_AT)
            inode = _INODE.unpack_from(body, _INODE_AT)[0]
            port, info = _outward_port(body), body[at + 4 : at + length]
            queued = _queued(info, port, _far_end(body)) if port is not None else None
            near = "" if port is None else _address(body, _NEAR_AT)
            return Connection(inode, sent + received, port, _unanswered(body), queued, near)
        at += (length + 3) & ~3
    return None


def _unanswered(body: bytes) -> str:
    """The far end of a connection on which the same is sent again and again."""
    return _far_end(body) if body[_TIMER_AT] == _SENDS_AGAIN and body[_AGAIN_AT] >= UNANSWERED else ""


def _queued(info: bytes, port: int, far: str) -> Optional[QueuedPath]:
    """What waits to be sent on a connection, by its ``struct tcp_info``; the times in it are there since Linux 4.10."""
    if len(info) < _TIMES_AT + _TIMES.size:
        return None
    unsent = _UNSENT.unpack_from(info, _UNSENT_AT)[0]
    if not unsent:
        return None
    busy, by_window, by_buffer = _TIMES.unpack_from(info, _TIMES_AT)
    acked = _COUNTS.unpack_from(info, _COUNTS_AT)[0]
    return QueuedPath(port, far, acked, max(0, busy - by_window - by_buffer) / 1e6, unsent)


def _far_end(body: bytes) -> str:
    port = _PORT.unpack_from(body, _FAR_PORT_AT)[0]
    far = _address(body, _FAR_AT)
    return ("[%s]:%d" if ":" in far else "%s:%d") % (far, port)


def _address(body: bytes, at: int) -> str:
    """The near or the far address; one of IPv4 that is written as one of IPv6 is one of IPv4."""
    raw = body[at : at + 16]
    if body[0] == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def _outward_port(body: bytes) -> Optional[int]:
    """This end's port of a connection that leaves this machine, as far as the far address tells."""
    far = body[_FAR_AT : _FAR_AT + 16]
    v4 = far[:4] if body[0] == socket.AF_INET else far[12:] if far[:12] == b"\0" * 10 + b"\xff\xff" else b""
    loops = v4[:1] == b"\x7f" if v4 else far == b"\0" * 15 + b"\1"
    return None if loops else int(_PORT.unpack_from(body, _PORT_AT)[0])
