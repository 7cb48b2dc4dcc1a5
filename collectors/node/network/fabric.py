"""Source ``fabric``: InfiniBand and RoCE ports by sysfs, or by ``ibstat`` and ``perfquery`` where it has less."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.child import find, run, told
from collectors.node.files import text
from collectors.node.network import hca
from collectors.node.network.ib_tools import parse_ibstat, parse_perfquery
from collectors.node.source import Absent, NotResponding, Shared, Source
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
"""Seconds after which adapters, and what hardly moves in them, are looked at anew."""
TOOL_PERIOD = 5.0
"""Seconds between two runs of a tool; while a stream is young one with every look."""
PATIENCE = 20.0
"""Seconds that one tool may take."""
NOTHING = "no InfiniBand or RoCE adapter on this node"

Name = Tuple[str, int]


class Fabric(Source):
    """Ports of every host channel adapter."""

    name = "fabric"
    period = BRISK

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, os.environ.get(SYS, sys))
        self._ports: Dict[Name, Optional[PortFacts]] = {}
        self._scanned = float("-inf")
        self._began: Optional[float] = None
        self._counters: Dict[Name, hca.HcaCounters] = {}
        self._tools_due = 0.0
        self._told: Dict[Name, Dict[str, int]] = {}
        """By port, what perfquery said last."""

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (the agent stamps what it sends)
        """Every port's state, and those of its counters that moved. Raises :class:`Absent` where there is no port."""
        moment = time.monotonic()
        self._began = moment if self._began is None else self._began
        young = moment - self._began < YOUNG
        self.period = BRISK if young else PERIOD
        if moment - self._scanned > RESCAN:
            self._scanned = moment
            self._ports = dict.fromkeys(hca.ports(self.sys))
        lacking: List[PortFacts] = []
        for name in self._ports:
            yield from self._port(name, moment, lacking, young=young)
        if moment >= self._tools_due:
            self._tools_due = moment + (0.0 if young else TOOL_PERIOD)
            if not self._ports:
                lacking = by_ibstat()
                yield from lacking
            for port in lacking:
                if port.link_layer != "Ethernet" and port.state == "ACTIVE":  # perfquery asks over the link
                    yield from self._by_perfquery(port)

    def _port(self, name: Name, moment: float, lacking: List[PortFacts], *, young: bool) -> Iterator[NamedTuple]:
        """One port by sysfs; it is added to ``lacking`` when sysfs has no counters of it."""
        known = self._ports[name]
        facts = hca.facts(self.sys, *name) if known is None else hca.state(self.sys, known)
        self._ports[name] = facts
        if facts is None:
            return
        yield facts
        counters = self._counters.get(name)
        if counters is None:
            counters = self._counters[name] = hca.HcaCounters(hca.folder(self.sys, *name))
        news = counters.changed(moment, errors=young)
        if news:
            yield PortCounters(*name, "sysfs", news)
        if counters.error:
            yield Fault(self.name, "%s/%d %s; left alone for some minutes" % (*name, counters.error), 1)
        if not counters.usable:
            lacking.append(facts)

    def _by_perfquery(self, port: PortFacts) -> Iterator[NamedTuple]:
        """Counters of a port that moved since perfquery's last answer: the extended ones, else the plain ones."""
        path = find("perfquery")
        if path is None:
            return
        said = ""
        for mode in (["-x"], []):
            ended = run([path, *mode, "-C", port.device, "-P", str(port.port)], PATIENCE)
            for block in parse_perfquery(text(ended.stdout)):
                last = self._told.setdefault((port.device, port.port), {})
                news = {key: value for key, value in block.values.items() if last.get(key) != value}
                last.update(news)
                if news:
                    source = "perfquery-x" if block.extended else "perfquery"
                    yield PortCounters(port.device, port.port, source, news)
                return
            said = told("perfquery", text(ended.stderr).strip(), 200) or "status %s" % ended.status
        yield Fault(self.name, "%s/%d: perfquery gave no counters: %s" % (port.device, port.port, said), 1)


def by_ibstat() -> List[PortFacts]:
    """Ports as ibstat shows them.

    Raises :class:`Absent` where there is no ibstat, or it shows no adapter, and :class:`NotResponding` where it gives
    no answer.
    """
    path = find("ibstat")
    if path is None:
        raise Absent(NOTHING)
    ended = run([path], PATIENCE)
    if ended.status is None:
        raise NotResponding("ibstat", PATIENCE)
    ports = parse_ibstat(text(ended.stdout))
    if not ports:
        said = told("ibstat", text(ended.stderr).strip(), 200)
        raise Absent("%s; ibstat says: %s" % (NOTHING, said) if said else NOTHING)
    return ports
