"""InfiniBand and RoCE ports: states and counters from sysfs, or ``ibstat`` and ``perfquery`` where it has less."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.network import hca_ports
from collectors.node.network.fabric_tools import PortCounts, PortStates
from collectors.node.network.hca_counters import HcaCounters
from collectors.node.shared import Shared
from collectors.node.source import NotResponding, Source
from collectors.samples.fabric import PortCounters, PortFacts
from collectors.samples.stream import Fault

SYS = "HANGTOP_SYS"
"""Folder in place of ``/sys``, in the node side's own environment, when one machine plays several nodes."""
YOUNG = 15.0
"""Seconds from the first look in which every look reads all error counters: a watch of a few seconds has to see its
beginning and its end."""
BRISK, PERIOD = 1.5, 2.0
"""Seconds between two looks then, and later."""
RESCAN = 30.0
"""Seconds after which adapters are looked for anew."""


class Fabric(Source):
    """Ports of every host channel adapter."""

    name = "fabric"
    period = BRISK

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, os.environ.get(SYS, sys))
        self._ports: List[Tuple[str, int]] = []
        self._scanned = float("-inf")
        self._began: Optional[float] = None
        self._counters: Dict[Tuple[str, int], HcaCounters] = {}
        self._states = PortStates()
        self._counts = PortCounts()

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (the agent stamps what it sends)
        """Every port's state, and those of its counters that moved."""
        moment = time.monotonic()
        self._began = moment if self._began is None else self._began
        young = moment - self._began < YOUNG
        self.period = BRISK if young else PERIOD
        if moment - self._scanned > RESCAN:
            self._scanned = moment
            self._ports = hca_ports.ports(self.sys)
        if self._ports:
            lacking: List[PortFacts] = []
            for name in self._ports:
                yield from self._port(name, moment, lacking, young=young)
        else:
            self.retry = Source.retry
            try:
                lacking = self._states.look(moment, brisk=young)
            except NotResponding:
                self.retry = self.period  # an answer that comes late is taken soon after
                raise
            yield from lacking
        yield from self._counts.look([port for port in lacking if _has_counters(port)], moment, brisk=young)

    def _port(
        self, name: Tuple[str, int], moment: float, lacking: List[PortFacts], *, young: bool
    ) -> Iterator[NamedTuple]:
        """One port by sysfs; it is added to ``lacking`` when sysfs has no counters of it."""
        facts = hca_ports.facts(self.sys, *name)
        if facts is None:
            return
        yield facts
        counters = self._counters.get(name)
        if counters is None:
            counters = self._counters[name] = HcaCounters(hca_ports.folder(self.sys, *name))
        news = counters.changed(moment, errors=young)
        if news:
            yield PortCounters(*name, "sysfs", news)
        if counters.error:
            yield Fault(self.name, "%s/%d %s; left alone for some minutes" % (*name, counters.error), 1)
        if not counters.usable:
            lacking.append(facts)


def _has_counters(port: PortFacts) -> bool:
    """True for a port that answers perfquery: its subnet's protocol runs over InfiniBand links that are up."""
    return port.link_layer != "Ethernet" and port.state == "ACTIVE"
