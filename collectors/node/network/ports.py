"""Who uses the TCP ports that a job needs: listeners, connections, and what still waits for its time to pass."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from collectors.node import redact
from collectors.node.blocking import GuardedReader
from collectors.node.processes.procfs import read_stat, split_zeros
from collectors.node.processes.socket_tables import ESTABLISHED, LISTEN, TIME_WAIT, held_sockets, of_ports


class Usage(NamedTuple):
    """How one port is used."""

    listeners: List[int]
    """Inodes of the listening sockets."""
    established: int
    """Connections to it: of this node's server, or else of this node's clients."""
    time_wait: int


def usage_of(ports: Iterable[int], tables: Sequence[bytes]) -> Dict[int, Usage]:
    """Use of each port in /proc/net/tcp and tcp6 (either may be empty)."""
    wanted = {port for port in ports if 0 < port < 65536}
    listeners: Dict[int, List[int]] = {port: [] for port in wanted}
    served, dialled, waiting = dict.fromkeys(wanted, 0), dict.fromkeys(wanted, 0), dict.fromkeys(wanted, 0)
    for one in of_ports(wanted, tables):
        if one.local_port in wanted and one.state == LISTEN:
            listeners[one.local_port].append(one.inode)
        elif one.local_port in wanted:
            served[one.local_port] += one.state == ESTABLISHED
            waiting[one.local_port] += one.state == TIME_WAIT
        elif one.remote_port in wanted:
            dialled[one.remote_port] += one.state == ESTABLISHED
    return {port: Usage(listeners[port], served[port] or dialled[port], waiting[port]) for port in wanted}


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
        stat = read_stat(self._proc, pid)
        said: Optional[str] = redact.command(words, 256) if words else (stat.comm if stat else None)
        return "%d %s" % (pid, said or "?")
