"""The TCP sockets of a network namespace, their owners, and the traffic of one process's sockets, over netlink.

sock_diag(7): ``struct inet_diag_req_v2`` and ``inet_diag_msg`` of linux/inet_diag.h, ``tcp_info`` of linux/tcp.h.
Every user may query our own namespace; a container's namespace must be entered first. /proc/PID/io cannot replace this:
it counts ``read`` and ``write``, but not ``recv`` and ``send``.
"""

from __future__ import annotations

import re
import struct
import time
from _socket import AF_INET, AF_INET6, IPPROTO_TCP, inet_ntop
from contextlib import closing
from itertools import chain
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from collectors.node.files import link, list_folder
from collectors.node.netlink import attributes, dump, netlink
from collectors.node.processes.namespaces import foreign_namespace, in_network_of

ESTABLISHED, TIME_WAIT, LISTEN = 1, 6, 10
"""States, as in include/net/tcp_states.h."""
ALL = (1 << 12) - 1
DESCRIPTORS = 20000
"""Open sockets examined in one search for an owner: about 20 ms."""
SHORTEST = 0.05
"""Seconds; the shortest time over which a data rate is measured."""
SHARED = 0.1
"""Seconds for which one list of a namespace's connections is shared by all ranks."""
UNANSWERED = 4
"""Retransmissions of the same data (about three seconds) after which a peer counts as not answering. The kernel still
acknowledges data for a stopped process, so the cause is the network or a lost machine."""
MOST = 64
"""Far ends and local addresses reported for one process at most."""

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG; the module socket has no name for it
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_INFO = 2  # INET_DIAG_INFO
_SENDS_AGAIN = 1  # retransmit timer is running
_REQUEST = struct.Struct("=BBBxI2s2s44x")
_SOCKET = struct.Struct("=BBBB 2s2s 16s16s 24x II")
"""struct inet_diag_msg: family, state, timer, its timeouts, both ports (big endian), both addresses, uid, inode."""
_TCP_INFO = struct.Struct("=120x QQ")
"""struct tcp_info: bytes_acked and bytes_received (Linux 4.1)."""
_INODE = re.compile(r"socket:\[(\d{1,20})\]$")


class TcpSocket(NamedTuple):
    """One socket."""

    inode: int
    """0 in TIME_WAIT."""
    uid: int
    state: int
    port: int
    """Local port."""
    local: str
    """``10.0.0.7:40001``."""
    remote: str
    unacknowledged: int
    """Retransmissions of the same data without an acknowledgement."""
    acknowledged: int
    received: int
    """Bytes sent and acknowledged, and bytes received; 0 when unknown."""

    @property
    def leaves(self) -> bool:
        """Whether the far end is outside the loopback interface."""
        return not self.remote.startswith(("127.", "[::1]"))


def tcp_sockets(pid: int, states: int = ALL, *, port: int = 0, proc: str = "/proc") -> Iterator[TcpSocket]:
    """Sockets in the network namespace of a process, in these states (a bit mask), with this local port (0: any).

    Raises :class:`OSError`, also if the namespace may not be entered or the kernel does not answer.
    """
    with closing(in_network_of(pid, lambda: netlink(_SOCK_DIAG), proc)) as asked:
        for family in (AF_INET, AF_INET6):
            near = struct.pack(">H", port)
            wanted = _REQUEST.pack(family, IPPROTO_TCP, 1 << (_INFO - 1), states, near, b"\0\0")
            yield from filter(None, map(tcp_socket, dump(asked, _BY_FAMILY, wanted)))


def tcp_socket(body: bytes) -> Optional[TcpSocket]:
    """The socket of a ``struct inet_diag_msg``; None for a message that is too short."""
    if len(body) < _SOCKET.size:
        return None
    family, state, timer, again, near_port, far_port, near, far, uid, inode = _SOCKET.unpack_from(body)
    port = int.from_bytes(near_port, "big")
    local, remote = _address(family, near, port), _address(family, far, int.from_bytes(far_port, "big"))
    info = attributes(body, _SOCKET.size).get(_INFO, b"").ljust(_TCP_INFO.size, b"\0")
    again = again if timer == _SENDS_AGAIN else 0
    return TcpSocket(inode, uid, state, port, local, remote, again, *_TCP_INFO.unpack_from(info))


def _address(family: int, raw: bytes, port: int) -> str:
    """Address and port as text, ``10.0.0.7:40001``; an IPv4-mapped IPv6 address as IPv4."""
    if family == AF_INET:
        return "%s:%d" % (inet_ntop(AF_INET, raw[:4]), port)
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return "%s:%d" % (inet_ntop(AF_INET, raw[12:]), port)
    return "[%s]:%d" % (inet_ntop(AF_INET6, raw), port)


# --- owners ----------------------------------------------------------------------------------------------------------


def held_sockets(pid: int, proc: str = "/proc") -> Set[int]:
    """Inodes of the sockets that a process has open; empty without the right to read them."""
    folder = "%s/%d/fd" % (proc, pid)
    targets = (_INODE.match(link("%s/%s" % (folder, name))) for name in list_folder(folder))
    return {int(target.group(1)) for target in targets if target}


def socket_owner(inode: int, likely: Iterable[int] = (), proc: str = "/proc") -> Optional[int]:
    """Pid of the process that has a socket open, searched among the ``likely`` processes first, then among all.

    None if no such process is found among the first :data:`DESCRIPTORS` open sockets.
    """
    left = DESCRIPTORS
    for pid in chain(likely, sorted((int(name) for name in list_folder(proc) if name.isdigit()), reverse=True)):
        held = held_sockets(pid, proc)
        left -= len(held)
        if inode in held or left < 0:
            return pid if inode in held else None
    return None


# --- traffic of one process ------------------------------------------------------------------------------------------

_latest: Dict[str, Tuple[float, Dict[int, TcpSocket]]] = {}
"""By network namespace (empty is ours): time of the list (monotonic clock), and its connections by inode."""


class ProcessTraffic(NamedTuple):
    """Traffic of a process's connections; the fields are those of :class:`StackDump`, in its order."""

    carried: Optional[int] = None
    carrying: Optional[float] = None
    unanswered: List[str] = []  # noqa: RUF012 (never written to)
    addresses: List[str] = []  # noqa: RUF012 (never written to)


class CarriedBytes:
    """Measures the traffic of a process's connections from now on."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self._pid = pid
        self._proc = proc
        self._began, self._before = self._look(float("-inf"))

    def measured(self) -> ProcessTraffic:
        """Bytes so far, and the rate since construction if that was at least :data:`SHORTEST` ago."""
        at, now = self._look(self._began + SHORTEST)
        if now.carried is None or self._before.carried is None or at - self._began < SHORTEST:
            return now
        return now._replace(carrying=round(max(0, now.carried - self._before.carried) / (at - self._began), 1))

    def _look(self, since: float) -> Tuple[float, ProcessTraffic]:
        """Time of the list used, and the bytes carried by then; the list is no older than ``since``.

        The time is ``-inf`` and the traffic unknown if its sockets cannot be read, or are in a network namespace that
        may not be entered.
        """
        inodes, namespace = held_sockets(self._pid, self._proc), foreign_namespace(self._pid, "net", self._proc)
        now = time.monotonic()
        if inodes and (namespace not in _latest or _latest[namespace][0] < max(since, now - SHARED)):
            try:
                sockets = tcp_sockets(self._pid, 1 << ESTABLISHED, proc=self._proc)
                _latest[namespace] = now, {socket.inode: socket for socket in sockets}
            except (AttributeError, OSError):  # no netlink here, or it is refused in this container
                return float("-inf"), ProcessTraffic()
        if not inodes:
            return float("-inf"), ProcessTraffic()
        at, connections = _latest[namespace]
        mine = [connections[inode] for inode in inodes if inode in connections]
        local = {socket.local.rpartition(":")[0].strip("[]") for socket in mine if namespace and socket.leaves}
        return at, ProcessTraffic(
            carried=sum(socket.acknowledged + socket.received for socket in mine),
            unanswered=sorted({socket.remote for socket in mine if socket.unacknowledged >= UNANSWERED})[:MOST],
            addresses=sorted(local)[:MOST],
        )
