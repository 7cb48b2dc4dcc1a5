"""What the kernel tells of the TCP connections of one process: how much they carried, and what nobody acknowledges.

A download or an upload by ``recv`` and ``send`` is in no figure of /proc/PID/io, which counts ``read`` and ``write``
alone. Where the far end does not acknowledge what was sent, it is sent again after 0.2 s, and each time after twice as
long: of a process that is stopped the kernel still acknowledges, so that this tells of the network or of a machine that
is gone.
"""

from __future__ import annotations

import struct
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from collectors.node.processes.namespaces import foreign_network
from collectors.node.processes.sockets import ESTABLISHED, TcpSocket, held_sockets, tcp_sockets
from collectors.samples.stacks import QueuedPath

SHORTEST = 0.05
"""Seconds in which a stream of data is seen to go on."""
SHARED = 0.1
"""Seconds for which one list of the node's connections serves every rank."""
UNANSWERED = 4
"""Times that something was sent again from which on nobody answers there: three seconds."""
MOST = 64
"""Far ends, and own addresses, that are told of a process."""
QUEUES = 8
"""Of those that have something to send, so many are told."""

_COUNTS_AT, _COUNTS = 120, struct.Struct("=QQ")
_QUEUE_AT, _QUEUE = 144, struct.Struct("=I")
"""Of struct tcp_info: ``bytes_acked`` and ``bytes_received``; ``notsent_bytes`` (Linux 4.6)."""


class Listing(NamedTuple):
    """The connections of one network namespace by inode, as they were at one moment of the monotonic clock."""

    at: float
    connections: Dict[int, TcpSocket]


_latest: Dict[str, Listing] = {}
"""By network namespace; empty is ours."""


def listed(pid: int, since: float = float("-inf"), proc: str = "/proc") -> Optional[Listing]:
    """Connections where this process is, no older than :data:`SHARED` seconds, and than ``since``.

    None where there are none to have: no netlink, or a namespace that may not be entered.
    """
    now = time.monotonic()
    namespace = foreign_network(pid, proc)
    latest = _latest.get(namespace)
    if latest is None or latest.at < max(since, now - SHARED):
        try:
            found = {one.inode: one for one in tcp_sockets(pid, 1 << ESTABLISHED, info=True, proc=proc)}
        except (AttributeError, OSError):
            return None  # no netlink here, or it is refused in this container
        latest = _latest[namespace] = Listing(now, found)
    return latest


class TrafficTold(NamedTuple):
    """What a look tells of a process's connections, in the order of the last fields of a :class:`StackDump`."""

    carried: Optional[int] = None
    carrying: Optional[float] = None
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
    inodes = held_sockets(pid, proc)
    listing = listed(pid, since, proc) if inodes else None
    if listing is None:
        return float("-inf"), TrafficTold()
    mine = [listing.connections[inode] for inode in inodes if inode in listing.connections]
    outward = [one for one in mine if one.leaves]
    own = {one.local.rpartition(":")[0].strip("[]") for one in outward}
    return listing.at, TrafficTold(
        carried=sum(map(bytes_carried, mine)),
        unanswered=sorted({one.remote for one in mine if one.unacknowledged >= UNANSWERED})[:MOST],
        queued=sorted(path for path in map(queued_path, outward) if path is not None)[:QUEUES],
        addresses=sorted(own)[:MOST] if foreign_network(pid, proc) else [],
    )


def bytes_carried(one: TcpSocket) -> int:
    """Bytes that a connection has sent, and were acknowledged, and received."""
    return sum(_COUNTS.unpack_from(one.info, _COUNTS_AT)) if len(one.info) >= _COUNTS_AT + _COUNTS.size else 0


def queued_path(one: TcpSocket) -> Optional[QueuedPath]:
    """What is acknowledged on a connection with more to send; None where nothing waits, or the kernel does not tell."""
    if len(one.info) < _QUEUE_AT + _QUEUE.size or not _QUEUE.unpack_from(one.info, _QUEUE_AT)[0]:
        return None
    return QueuedPath(one.port, one.remote, _COUNTS.unpack_from(one.info, _COUNTS_AT)[0])
