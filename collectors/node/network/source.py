"""Source ``network``: interfaces and their losses, and TCP retransmissions."""

from __future__ import annotations

import time
from typing import Dict, Iterator, NamedTuple, Set

from collectors.node.files import read_or_none, text
from collectors.node.network.interfaces import counters, interfaces
from collectors.node.source import Shared, Source
from collectors.samples.host import Counters

FACTS_EVERY = 30.0
"""Seconds between two reads of the interfaces' properties."""
TCP = (b"OutSegs", b"RetransSegs")
INTERFACES = 48
"""Interfaces reported at most, after virtual ones without an address are left out."""


class NetworkSource(Source):
    """Interfaces with their counters, and TCP counters of this network namespace."""

    name = "network"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._shown: Set[str] = set()
        self._facts_at = 0.0

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """Counters at every read; interfaces every :data:`FACTS_EVERY` seconds, or when one disappears."""
        moment = time.monotonic()
        counted = counters(read_or_none(self.proc + "/net/dev") or b"")
        if moment >= self._facts_at or not self._shown <= counted.keys():
            self._facts_at = moment + FACTS_EVERY
            found = [facts for facts in interfaces(self.sys) if facts.kind != "virtual" or facts.addresses][:INTERFACES]
            self._shown = {facts.name for facts in found}
            yield from found
        yield from (Counters(name, "interface", values) for name, values in counted.items() if name in self._shown)
        tcp = parse_snmp_tcp(read_or_none(self.proc + "/net/snmp") or b"")
        if tcp:
            yield Counters("", "tcp", tcp)


def parse_snmp_tcp(data: bytes) -> Dict[str, int]:
    """Segments sent and retransmitted, from the two ``Tcp:`` lines of /proc/net/snmp; empty if missing."""
    rows = [line.split() for line in data.split(b"\n") if line.startswith(b"Tcp:")]
    columns = zip(*rows[:2]) if len(rows) > 1 else ()
    return {text(name): int(value[:20]) for name, value in columns if name in TCP and value.isdigit()}
