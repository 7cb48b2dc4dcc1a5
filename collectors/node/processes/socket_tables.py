"""The TCP sockets of a network namespace, from /proc/net/tcp and tcp6 (Documentation/networking/proc_net_tcp)."""

from __future__ import annotations

import re
import struct
from itertools import chain
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.files import link, list_folder, read_or_none

LIMIT = 64 << 20
"""Bytes of one table: a busy node has tens of thousands of sockets, of 150 bytes each."""
LINKS = 20000
"""Sockets that are looked at in one search for owners: some 20 ms."""
REMEMBERED = 256
"""Sockets whose owners are remembered."""
ESTABLISHED, TIME_WAIT, LISTEN = 1, 6, 10
"""States, as in include/net/tcp_states.h."""

_ROW = re.compile(
    rb"^ *\d+: ((?:[0-9A-F]{8}|[0-9A-F]{32}):[0-9A-F]{4}) ((?:[0-9A-F]{8}|[0-9A-F]{32}):[0-9A-F]{4}) ([0-9A-F]{2})"
    rb" \S+ \S+ \S+ +\d+ +\d+ (\d{1,20})(?!\d)",
    re.M,
)
_SOCKET = re.compile(r"socket:\[(\d{1,20})\]$")


class TcpSocket(NamedTuple):
    """One row."""

    local_port: int
    remote_port: int
    state: int
    inode: int
    remote: str
    """As it stands there: :func:`address` reads it."""
    local: str
    """The near end, in the same form."""


def read_tables(net: str) -> List[bytes]:
    """Both tables of a folder like ``/proc/net``; an empty one for what may not be read."""
    return [read_or_none("%s/%s" % (net, name), LIMIT) or b"" for name in ("tcp", "tcp6")]


def sockets(tables: Iterable[bytes]) -> Iterator[TcpSocket]:
    """Every row that can be read."""
    for table in tables:
        for local, remote, state, inode in _ROW.findall(table):
            yield TcpSocket(
                int(local[-4:], 16), int(remote[-4:], 16), int(state, 16), int(inode),
                remote.decode(), local.decode(),
            )  # fmt: skip


def of_ports(ports: Iterable[int], tables: Sequence[bytes]) -> Iterator[TcpSocket]:
    """Those with one of these ports at either end, at a fraction of the cost: most sockets are strangers'."""
    wanted = b"|".join(b"%04X" % port for port in ports)
    if wanted:
        mention = re.compile(rb"^.*:(?:%s) .*$" % wanted, re.M)
        yield from sockets(line for table in tables for line in mention.findall(table))


def listening(tables: Sequence[bytes]) -> Set[Tuple[int, int]]:
    """(port, inode of the socket) of everything that listens."""
    return {(one.local_port, one.inode) for one in sockets(tables) if one.state == LISTEN}


def address(text: str) -> str:
    """Address and port as people write them (``0100007F:1F90`` is 127.0.0.1:8080).

    Raises :class:`ValueError` for anything else.
    """
    import socket  # 8 ms of start: only where there is a connection to name

    host, _, port = text.partition(":")
    raw = bytes.fromhex(host)
    if len(raw) not in (4, 16):
        raise ValueError("no address: %s" % text)
    packed = struct.pack(">%dI" % (len(raw) // 4), *struct.unpack("=%dI" % (len(raw) // 4), raw))
    if len(raw) == 4:
        return "%s:%d" % (socket.inet_ntop(socket.AF_INET, packed), int(port, 16))
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return "%s:%d" % (socket.inet_ntop(socket.AF_INET, packed[12:]), int(port, 16))
    return "[%s]:%d" % (socket.inet_ntop(socket.AF_INET6, packed), int(port, 16))


def held_sockets(proc: str, pid: int) -> Set[int]:
    """Inodes of the sockets that a process has open; empty where that may not be read."""
    folder = "%s/%d/fd" % (proc, pid)
    targets = (_SOCKET.match(link("%s/%s" % (folder, name))) for name in list_folder(folder))
    return {int(target.group(1)) for target in targets if target}


class SocketOwners:
    """Finds the processes behind sockets by their inodes, and remembers them."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._known: Dict[int, Optional[int]] = {}

    def find(self, inodes: Iterable[int], likely: Iterable[int]) -> Dict[int, int]:
        """Pid by inode: of the ``likely`` processes first, else of any other. What may not be looked at has none."""
        wanted = list(inodes)
        missing = {inode for inode in wanted if inode not in self._known}
        if missing:
            if len(self._known) > REMEMBERED:
                self._known.clear()
                missing = set(wanted)
            self._known.update(self._search(missing, likely))
        return {inode: pid for inode in wanted for pid in [self._known.get(inode)] if pid is not None}

    def _search(self, missing: Set[int], likely: Iterable[int]) -> Dict[int, Optional[int]]:
        found: Dict[int, Optional[int]] = dict.fromkeys(missing)
        left = LINKS
        others = sorted((int(name) for name in list_folder(self._proc) if name.isdigit()), reverse=True)
        for pid in chain(likely, others):
            if not missing or left < 0:
                break
            held = held_sockets(self._proc, pid)
            left -= len(held)
            found.update(dict.fromkeys(held & missing, pid))
            missing = missing - held
        return found
