"""The TCP sockets of a network namespace, and whose they are, as the kernel tells over netlink.

sock_diag(7): ``struct inet_diag_req_v2`` and ``inet_diag_msg`` of linux/inet_diag.h, ``tcp_info`` of linux/tcp.h.
Anybody may ask in our own namespace; in a container's, who may enter it.
"""

from __future__ import annotations

import re
import socket
import struct
from itertools import chain
from typing import Dict, Iterable, Iterator, NamedTuple, Optional, Set

from collectors.node.files import link, list_folder
from collectors.node.netlink import attributes, dump, netlink
from collectors.node.processes.namespaces import in_network_of

ESTABLISHED, TIME_WAIT, LISTEN = 1, 6, 10
"""States, as in include/net/tcp_states.h."""
ALL = (1 << 12) - 1
DESCRIPTORS = 20000
"""Open files that are looked at in one search for an owner: some 20 ms."""

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG; the module socket has no name for it
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_INFO = 2  # INET_DIAG_INFO
_SENDS_AGAIN = 1  # timer of a connection that waits to send once more what was not acknowledged
_REQUEST = struct.Struct("=BBBxI2s2s44x")
_SOCKET = struct.Struct("=BBBB 2s2s 16s16s 24x II")
"""Of struct inet_diag_msg: family, state, timer and how often it ran out, both ports (big endian), both addresses, uid,
inode."""
_INODE = re.compile(r"socket:\[(\d{1,20})\]$")


class TcpSocket(NamedTuple):
    """One socket."""

    inode: int
    """0 in TIME_WAIT."""
    uid: int
    state: int
    port: int
    """At this end."""
    local: str
    """``10.0.0.7:40001``."""
    remote: str
    unacknowledged: int
    """Times that the same was sent again without an answer."""
    info: bytes
    """``struct tcp_info``, where it was asked for."""

    @property
    def leaves(self) -> bool:
        """Whether its far end is not on the loopback interface."""
        return not self.remote.startswith(("127.", "[::1]"))


def tcp_sockets(
    pid: int,
    states: int = ALL,
    *,
    port: int = 0,
    info: bool = False,
    proc: str = "/proc",
) -> Iterator[TcpSocket]:
    """Sockets of the network namespace of this process, in these states (a bit mask), with this port (0: any).

    Raises :class:`OSError`, also where that namespace may not be entered or the kernel does not answer.
    """
    extension = 1 << (_INFO - 1) if info else 0
    with in_network_of(pid, lambda: netlink(_SOCK_DIAG), proc) as asked:
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = _REQUEST.pack(family, socket.IPPROTO_TCP, extension, states, struct.pack(">H", port), b"\0\0")
            yield from filter(None, map(tcp_socket, dump(asked, _BY_FAMILY, wanted)))


def tcp_socket(body: bytes) -> Optional[TcpSocket]:
    """The socket of a ``struct inet_diag_msg``; None for a message that is too short."""
    if len(body) < _SOCKET.size:
        return None
    family, state, timer, again, near_port, far_port, near, far, uid, inode = _SOCKET.unpack_from(body)
    port = int.from_bytes(near_port, "big")
    local, remote = _address(family, near, port), _address(family, far, int.from_bytes(far_port, "big"))
    again = again if timer == _SENDS_AGAIN else 0
    return TcpSocket(inode, uid, state, port, local, remote, again, attributes(body, _SOCKET.size).get(_INFO, b""))


def _address(family: int, raw: bytes, port: int) -> str:
    """An address and port as people write them; an IPv4 address within IPv6 as IPv4."""
    if family == socket.AF_INET:
        return "%s:%d" % (socket.inet_ntop(socket.AF_INET, raw[:4]), port)
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return "%s:%d" % (socket.inet_ntop(socket.AF_INET, raw[12:]), port)
    return "[%s]:%d" % (socket.inet_ntop(socket.AF_INET6, raw), port)


# --- whose they are --------------------------------------------------------------------------------------------------


def held_sockets(pid: int, proc: str = "/proc") -> Set[int]:
    """Inodes of the sockets that a process has open; empty where that may not be read."""
    folder = "%s/%d/fd" % (proc, pid)
    targets = (_INODE.match(link("%s/%s" % (folder, name))) for name in list_folder(folder))
    return {int(target.group(1)) for target in targets if target}


class SocketOwners:
    """Finds the processes behind sockets by their inodes, and remembers them."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: Dict[int, Optional[int]] = {}

    def find(self, inode: int, likely: Iterable[int]) -> Optional[int]:
        """Pid: of the ``likely`` processes first, else of any other; None where no process is seen to have it open."""
        if inode not in self._known:
            others = sorted((int(name) for name in list_folder(self._proc) if name.isdigit()), reverse=True)
            left, self._known[inode] = DESCRIPTORS, None
            for pid in chain(likely, others):
                held = held_sockets(pid, self._proc)
                left -= len(held)
                if inode in held or left < 0:
                    self._known[inode] = pid if inode in held else None
                    break
        return self._known[inode]
