"""Source ``network``: interfaces and their losses, TCP retransmissions, and the users of the job's ports."""

from __future__ import annotations

import time
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

from collectors.node import redact
from collectors.node.blocking import GuardedReader
from collectors.node.files import read_or_none
from collectors.node.network.interfaces import InterfaceQueries, describe, parse_dev, parse_if_inet6, parse_snmp_tcp
from collectors.node.processes.netns import is_elsewhere
from collectors.node.processes.procfs import read_stat, split_zeros
from collectors.node.processes.socket_tables import (
    ESTABLISHED,
    LISTEN,
    REMEMBERED,
    TIME_WAIT,
    SocketOwners,
    of_ports,
    read_tables,
)
from collectors.node.source import Shared, Source
from collectors.samples.fabric import InterfaceCounters, PortUse, TcpCounters

DEFAULT_PORTS = (29500, 29400)
"""Ports of torch's store and of torchrun's rendezvous when nobody names others: told of when they are in use."""
FACTS_EVERY = 30.0
PORTS_EVERY = 10.0
"""Seconds between two looks at interfaces, and at who uses the ports."""
PORTS_SHARE = 0.0004
"""Share of the time that reading the socket tables may take: a node with 100,000 sockets is asked less often."""
KEEP = 600.0
"""Seconds that the ports of ranks that are gone are watched: a restart may stumble over them."""
INTERFACES = 48
"""Interfaces that are told of at most; virtual ones without an address are left out before."""


class NetworkSource(Source):
    """What this node's network says about the job."""

    name = "network"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._asker = InterfaceQueries()
        self._owners = SocketOwners(proc)
        self._reader = GuardedReader()
        self._described: Dict[int, str] = {}
        self._shown: Set[str] = set()
        self._facts_at = 0.0
        self._ports_at = 0.0
        self._ports: Dict[Tuple[str, int], float] = {}
        """(folder of the network tables, port) → when a rank last named it."""
        self._told: Set[int] = set()

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """Counters every time; interfaces and ports now and then."""
        moment = time.monotonic()
        counters = parse_dev(read_or_none(self.proc + "/net/dev") or b"")
        if moment >= self._facts_at or not self._shown <= {counter.name for counter in counters}:
            self._facts_at = moment + FACTS_EVERY
            yield from self._interfaces(counters)
        yield from [counter for counter in counters if counter.name in self._shown]
        tcp = parse_snmp_tcp(read_or_none(self.proc + "/net/snmp") or b"")
        if tcp is not None:
            yield TcpCounters(*tcp)
        if moment >= self._ports_at:
            yield from self._port_uses(moment)
            spent = time.monotonic() - moment
            self._ports_at = moment + max(PORTS_EVERY, spent / PORTS_SHARE)

    def _interfaces(self, counters: List[InterfaceCounters]) -> Iterator[NamedTuple]:
        addresses = self._asker.addresses()
        for name, more in parse_if_inet6(read_or_none(self.proc + "/net/if_inet6") or b"").items():
            addresses.setdefault(name, []).extend(more)
        self._shown = set()
        for counter in counters:
            asked = self._asker.link(counter.name)
            if asked is None or len(self._shown) >= INTERFACES:
                continue
            interface = describe(counter.name, asked, sorted(set(addresses.get(counter.name, []))), self.sys)
            if interface.kind != "virtual" or interface.addresses:
                self._shown.add(counter.name)
                yield interface

    def _port_uses(self, moment: float) -> Iterator[PortUse]:
        for rank in self.shared.ranks:
            if rank.master_port is not None:
                own = "%s/%d/net" % (self.proc, rank.pid) if is_elsewhere(rank.pid, self.proc) else self.proc + "/net"
                self._ports[own, rank.master_port] = moment
        self._ports = {key: seen for key, seen in self._ports.items() if moment - seen < KEEP}
        named = {port for _, port in self._ports}
        folders: Dict[str, Set[int]] = {self.proc + "/net": set(DEFAULT_PORTS) - named}
        for tables, port in self._ports:
            folders.setdefault(tables, set()).add(port)
        for tables, ports in folders.items():
            for port, usage in usage_of(ports, read_tables(tables)).items():
                if any(usage) or port in named or port in self._told:
                    self._told.add(port)
                    listeners = self._names(usage.listeners)
                    yield PortUse(port, listeners, bool(usage.listeners), usage.established, usage.time_wait)

    def _names(self, inodes: Sequence[int]) -> List[str]:
        """``pid command`` of each socket, once; of a process that may not be looked at none."""
        likely = [pid for rank in self.shared.ranks for pid in (rank.pid, rank.parent)]
        return sorted({self._describe(pid) for pid in self._owners.find(inodes, likely).values()}) if inodes else []

    def _describe(self, pid: int) -> str:
        if pid not in self._described:
            path = "%s/%d/cmdline" % (self.proc, pid)
            answer = self._reader.read_all([path]).get(path)
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            stat = read_stat(self.proc, pid)
            if len(self._described) >= REMEMBERED:
                self._described.clear()
            said = redact.command(words, 256) if words else (stat.comm if stat else "")
            self._described[pid] = "%d %s" % (pid, said or "?")
        return self._described[pid]


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
    rows = list(of_ports(wanted, tables))
    found: Dict[int, Usage] = {}
    for port in wanted:
        own = [row for row in rows if row.local_port == port]
        served = sum(row.state == ESTABLISHED for row in own)
        dialled = sum(
            row.state == ESTABLISHED for row in rows if row.remote_port == port and row.local_port not in wanted
        )
        listeners = [row.inode for row in own if row.state == LISTEN]
        found[port] = Usage(listeners, served or dialled, sum(row.state == TIME_WAIT for row in own))
    return found
