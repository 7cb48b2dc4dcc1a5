"""Source ``network``: interfaces and their losses, TCP retransmissions, and the users of the job's ports."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from collectors.node import redact
from collectors.node.blocking import GuardedReader
from collectors.node.files import read_or_none
from collectors.node.network.interfaces import Link, addresses, describe, links
from collectors.node.processes.namespaces import foreign_network
from collectors.node.processes.procfs import read_stat, split_zeros
from collectors.node.processes.sockets import ESTABLISHED, LISTEN, TIME_WAIT, SocketOwners, tcp_sockets
from collectors.node.source import Shared, Source
from collectors.samples.fabric import PortUse, TcpCounters

DEFAULT_PORTS = (29500, 29400)
"""Ports of torch's store and of torchrun's rendezvous when nobody names others: told of when they are in use."""
FACTS_EVERY = 30.0
PORTS_EVERY = 10.0
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
        self._reader = GuardedReader()
        self._shown: Set[str] = set()
        self._facts_at = self._ports_at = 0.0
        self._named: Set[int] = set()
        """Ports that ranks have named in our network: a restart may stumble over those of ranks that are gone."""
        self._told: Set[int] = set()

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """Counters every time; interfaces and ports now and then."""
        moment = time.monotonic()
        present = list(links())
        if moment >= self._facts_at or not self._shown <= {one.name for one in present}:
            self._facts_at = moment + FACTS_EVERY
            yield from self._interfaces(present)
        yield from (one.counters for one in present if one.name in self._shown)
        tcp = parse_snmp_tcp(read_or_none(self.proc + "/net/snmp") or b"")
        if tcp is not None:
            yield TcpCounters(*tcp)
        if moment >= self._ports_at:
            self._ports_at = moment + PORTS_EVERY
            yield from self._port_uses()

    def _interfaces(self, present: List[Link]) -> Iterator[NamedTuple]:
        held = addresses()
        self._shown = set()
        for one in present:
            interface = describe(one, sorted(held.get(one.number, [])), self.sys)
            if len(self._shown) < INTERFACES and (interface.kind != "virtual" or interface.addresses):
                self._shown.add(one.name)
                yield interface

    def _port_uses(self) -> Iterator[PortUse]:
        wanted: Dict[int, int] = {}
        """Port → a process in whose network it is."""
        for rank in self.shared.ranks:
            if rank.master_port is not None:
                elsewhere = foreign_network(rank.pid, self.proc)
                wanted[rank.master_port] = rank.pid if elsewhere else os.getpid()
                self._named |= set() if elsewhere else {rank.master_port}
        for port in (*DEFAULT_PORTS, *self._named):
            wanted.setdefault(port, os.getpid())
        for port, pid in wanted.items():
            try:
                use = self._use(port, pid)
            except OSError:  # a network that may not be entered, or a container without netlink
                continue
            if use[1:] != ([], False, 0, 0) or port not in DEFAULT_PORTS or port in self._told:
                self._told.add(port)
                yield use

    def _use(self, port: int, pid: int) -> PortUse:
        """How a port is used: by this node's server, or else by this node's clients."""
        states = 1 << ESTABLISHED | 1 << LISTEN | 1 << TIME_WAIT
        own = list(tcp_sockets(pid, states, port=port, proc=self.proc))
        established = sum(one.state == ESTABLISHED for one in own)
        if not established:
            established = sum(1 for _ in tcp_sockets(pid, 1 << ESTABLISHED, remote_port=port, proc=self.proc))
        inodes = [one.inode for one in own if one.state == LISTEN]
        likely = [pid for rank in self.shared.ranks for pid in (rank.pid, rank.parent)]
        owners = {self._owners.find(inode, likely) for inode in inodes}
        listeners = sorted(self._describe(owner) for owner in owners if owner is not None)
        return PortUse(port, listeners, bool(inodes), established, sum(one.state == TIME_WAIT for one in own))

    def _describe(self, pid: int) -> str:
        """``pid command`` of a listener."""
        path = "%s/%d/cmdline" % (self.proc, pid)
        answer = self._reader.read_all([path]).get(path)
        words = split_zeros(answer) if isinstance(answer, bytes) else []
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
