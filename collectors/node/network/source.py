"""Source ``network``: interfaces and their losses, TCP retransmissions, and who listens on the job's ports."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, NamedTuple, Optional, Set, Tuple

from collectors.node import redact
from collectors.node.blocking import BlockingGuard
from collectors.node.files import read_or_none
from collectors.node.network.interfaces import counters, interfaces
from collectors.node.processes.namespaces import foreign_network
from collectors.node.processes.procfs import read_stat, split_zeros
from collectors.node.processes.sockets import LISTEN, SocketOwners, tcp_sockets
from collectors.node.source import Shared, Source
from collectors.samples.fabric import PortUse, TcpCounters

DEFAULT_PORTS = (29500, 29400)
"""Ports of torch's store and of torchrun's rendezvous when nobody names others."""
FACTS_EVERY = 30.0
PORTS_EVERY = 20.0
"""Seconds between two looks at interfaces, and at who uses the ports."""
INTERFACES = 48
"""Interfaces that are told of at most; virtual ones without an address are left out before."""


class NetworkSource(Source):
    """What this node's network says about the job."""

    name = "network"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._owners = SocketOwners(proc)
        self._guard = BlockingGuard()
        self._shown: Set[str] = set()
        self._facts_at = self._ports_at = 0.0
        self._named: Set[int] = set(DEFAULT_PORTS)
        """With the ports that ranks have named in our network: a restart may stumble over those of an earlier run."""
        self._told: Set[int] = set()

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """Counters every time; interfaces and ports now and then."""
        moment = time.monotonic()
        counted = counters(read_or_none(self.proc + "/net/dev") or b"")
        if moment >= self._facts_at or not self._shown <= counted.keys():
            self._facts_at = moment + FACTS_EVERY
            worth = [one for one in interfaces(self.sys) if one.kind != "virtual" or one.addresses][:INTERFACES]
            self._shown = {one.name for one in worth}
            yield from worth
        yield from (one for name, one in counted.items() if name in self._shown)
        tcp = parse_snmp_tcp(read_or_none(self.proc + "/net/snmp") or b"")
        if tcp is not None:
            yield TcpCounters(*tcp)
        if moment >= self._ports_at:
            self._ports_at = moment + PORTS_EVERY
            yield from self._port_uses()

    def _port_uses(self) -> Iterator[PortUse]:
        """Who listens on the ports of ranks, and on the usual ones; one that was never in use is not told of."""
        for rank in self.shared.ranks:
            if rank.master_port is not None and not foreign_network(rank.pid, self.proc):
                self._named.add(rank.master_port)
        owners: Dict[int, Set[Optional[int]]] = {port: set() for port in self._named}
        likely = [pid for rank in self.shared.ranks for pid in (rank.pid, rank.parent)]
        try:
            for one in tcp_sockets(os.getpid(), 1 << LISTEN, proc=self.proc):
                if one.port in owners:
                    owners[one.port].add(self._owners.find(one.inode, likely))
        except OSError:  # a container without netlink
            return
        self._told |= {port for port, found in owners.items() if found}
        for port in self._told:
            listeners = sorted(self._describe(owner) for owner in owners[port] if owner is not None)
            yield PortUse(port, listeners, bool(owners[port]))

    def _describe(self, pid: int) -> str:
        """``pid command`` of a listener."""
        words = split_zeros(self._guard.read("%s/%d/cmdline" % (self.proc, pid)) or b"")
        stat = read_stat(self.proc, pid)
        said = redact.command(words, 256) if words else (stat.comm if stat else "")
        return "%d %s" % (pid, said or "?")


def parse_snmp_tcp(data: bytes) -> Optional[Tuple[int, int]]:
    """Segments sent and retransmitted, of the two ``Tcp:`` lines of /proc/net/snmp."""
    rows = [line.split()[1:] for line in data.split(b"\n") if line.startswith(b"Tcp:")]
    if len(rows) != 2:
        return None
    values = dict(zip(rows[0], rows[1]))
    try:
        return int(values[b"OutSegs"]), int(values[b"RetransSegs"])
    except (KeyError, ValueError):
        return None
