"""Who uses the TCP ports that a job needs: listeners, connections, and what still waits for its time to pass."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.blocking import GuardedReader
from collectors.node.environ import presentable_command
from collectors.node.files import link, read_or_none
from collectors.node.procfs import parse_stat, split_zeros

_ROW = re.compile(
    rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]{2}) \S+ \S+ \S+ +\d+ +\d+ (\d{1,20})(?!\d)",
    re.M,
)
_ESTABLISHED, _TIME_WAIT, _LISTEN = b"01", b"06", b"0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]$")


class Usage(NamedTuple):
    """How one port is used."""

    listeners: List[int]
    """Inodes of the listening sockets."""
    established: int
    """Connections to it: of this node's server, or else of this node's clients."""
    time_wait: int


def usage_of(ports: Iterable[int], tables: Sequence[bytes]) -> Dict[int, Usage]:
    """Use of each port in /proc/net/tcp and tcp6 (either may be empty)."""
    wanted = {b"%04X" % port: port for port in ports if 0 < port < 65536}
    listeners: Dict[int, List[int]] = {port: [] for port in wanted.values()}
    served = dict.fromkeys(wanted.values(), 0)
    dialled = dict.fromkeys(wanted.values(), 0)
    waiting = dict.fromkeys(wanted.values(), 0)
    if not wanted:
        return {}
    # most sockets are strangers': the pattern is tried on those lines alone that show a wanted port
    mention = re.compile(rb"^.*:(?:%s) .*$" % b"|".join(wanted), re.M)
    for table in tables:
        for line in mention.findall(table):
            row = _ROW.match(line)
            if row is None:
                continue
            local, remote, state, inode = wanted.get(row.group(1)), wanted.get(row.group(2)), row.group(3), row.group(4)
            if local is not None and state == _LISTEN:
                listeners[local].append(int(inode))
            elif local is not None:
                served[local] += state == _ESTABLISHED
                waiting[local] += state == _TIME_WAIT
            elif remote is not None:
                dialled[remote] += state == _ESTABLISHED
    return {port: Usage(listeners[port], served[port] or dialled[port], waiting[port]) for port in wanted.values()}


def listening(tables: Sequence[bytes]) -> Set[Tuple[int, int]]:
    """(port, inode of the socket) of everything that listens in /proc/net/tcp and tcp6."""
    rows = (row for table in tables for row in _ROW.finditer(table))
    return {(int(row.group(1), 16), int(row.group(4))) for row in rows if row.group(3) == _LISTEN}


def local_ports(tables: Sequence[bytes]) -> Set[int]:
    """Local ports of every socket, whatever its state: TIME_WAIT keeps a port from others as well."""
    return {int(row.group(1), 16) for table in tables for row in _ROW.finditer(table)}


def held_sockets(proc: str, pid: int) -> Set[int]:
    """Inodes of the sockets that a process has open; empty where that may not be read."""
    folder = "%s/%d/fd" % (proc, pid)
    try:
        names = os.listdir(folder)
    except OSError:
        return set()
    found = (_SOCKET.match(link("%s/%s" % (folder, name))) for name in names)
    return {int(match.group(1)) for match in found if match}


class SocketOwners:
    """Finds the process behind a socket by its inode, and remembers it."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._reader = GuardedReader()
        self._known: Dict[int, str] = {}

    def names(self, inodes: Sequence[int], likely: Sequence[int]) -> List[str]:
        """``pid command`` of each socket; ``likely`` pids are tried first. Empty text for one that may not be read."""
        missing = {inode for inode in inodes if inode not in self._known}
        if missing:
            others = sorted((int(name) for name in os.listdir(self._proc) if name.isdigit()), reverse=True)
            for pid in [*likely, *others]:
                for inode in held_sockets(self._proc, pid) & missing:
                    self._known[inode] = self._describe(pid)
                    missing.discard(inode)
                if not missing:
                    break
            self._known.update(dict.fromkeys(missing, ""))
        found = [self._known[inode] for inode in inodes]
        if len(self._known) > 256:
            self._known.clear()
        return found

    def _describe(self, pid: int) -> str:
        path = "%s/%d/cmdline" % (self._proc, pid)
        answer = self._reader.read_all([path]).get(path)
        words = split_zeros(answer) if isinstance(answer, bytes) else []
        stat = parse_stat(read_or_none("%s/%d/stat" % (self._proc, pid)) or b"")
        said: Optional[str] = presentable_command(words, 256) if words else (stat.comm if stat else None)
        return "%d %s" % (pid, said or "?")
