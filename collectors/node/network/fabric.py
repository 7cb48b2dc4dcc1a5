"""Source ``fabric``: InfiniBand and RoCE ports by sysfs, or by ``ibstat`` and ``perfquery`` where it has less."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.child import ChildEnded, Query, find, told
from collectors.node.files import text
from collectors.node.network import hca
from collectors.node.network.ib_tools import parse_ibstat, parse_perfquery
from collectors.node.shared import Shared
from collectors.node.source import Absent, NotResponding, Source
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
AT_ONCE = 0.5
"""Seconds that answers are waited for then: else they come with the next look, when the watch may be over."""
PATIENCE = 20.0
"""Seconds that one tool may take."""
LATE = 5.0
"""Seconds without an answer of ibstat's after which what it said last is old."""
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
        self._tools = FabricTools()

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (the agent stamps what it sends)
        """Every port's state, and those of its counters that moved."""
        moment = time.monotonic()
        self._began = moment if self._began is None else self._began
        young = moment - self._began < YOUNG
        self.period = BRISK if young else PERIOD
        if moment - self._scanned > RESCAN:
            self._scanned = moment
            self._ports = dict.fromkeys(hca.ports(self.sys))
        lacking: List[PortFacts] = []
        if self._ports:
            for name in self._ports:
                yield from self._port(name, moment, lacking, young=young)
        else:
            self.retry = Source.retry
            try:
                lacking = self._tools.ports(moment, brisk=young)
            except NotResponding:
                self.retry = self.period  # an answer that comes late is taken soon after
                raise
            yield from lacking
        # perfquery answers over InfiniBand links that are up
        asked = [port for port in lacking if port.link_layer != "Ethernet" and port.state == "ACTIVE"]
        yield from self._tools.counters(asked, moment, brisk=young)

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


class FabricTools:
    """``ibstat`` and ``perfquery``, asked now and then. All times are of one monotonic clock."""

    def __init__(self) -> None:
        self._ibstat: Optional[Query] = None
        self._ibstat_due = 0.0
        self._ports: List[PortFacts] = []
        self._why = NOTHING
        self._silent: Optional[float] = None
        """When the first of the questions was asked that ibstat has not answered."""
        self._perfquery_due = 0.0
        self._queries: Dict[Name, Query] = {}
        self._plain: Set[Name] = set()
        """Ports whose extended counters are not to be had."""
        self._last: Dict[Name, Dict[str, int]] = {}

    def ports(self, moment: float, *, brisk: bool = False) -> List[PortFacts]:
        """Ports by ibstat's last answer.

        Raises :class:`Absent` where there is no ibstat, or it shows no adapter, and :class:`NotResponding` while it
        gives no answer.
        """
        if self._ibstat is None:
            path = find("ibstat")
            if path is None:
                raise Absent(NOTHING)
            self._ibstat = Query([path], patience=PATIENCE)
        if moment >= self._ibstat_due and not self._ibstat.waits:
            self._ibstat_due = moment + (0.0 if brisk else TOOL_PERIOD)
            self._ibstat.ask()
            self._silent = moment if self._silent is None else self._silent
        ended = self._ibstat.wait(0.0 if self._ports else 1.0)
        if ended is not None and ended.status is not None:
            self._silent = None
            self._ports = parse_ibstat(text(ended.stdout))
            said = told("ibstat", text(ended.stderr).strip(), 200)
            self._why = "%s; ibstat says: %s" % (NOTHING, said) if said else NOTHING
        if self._silent is not None and moment - self._silent > LATE:
            raise NotResponding("ibstat", moment - self._silent)
        if not self._ports and not self._ibstat.waits:
            raise Absent(self._why)
        return self._ports

    def counters(self, ports: Sequence[PortFacts], moment: float, *, brisk: bool = False) -> Iterator[NamedTuple]:
        """Counters of these ports that moved since perfquery's last answers."""
        path = find("perfquery") if ports else None
        if path is None:
            return
        due = moment >= self._perfquery_due
        if due:
            self._perfquery_due = moment + (0.0 if brisk else TOOL_PERIOD)
        asked: List[Tuple[Name, Query]] = []
        for facts in ports:
            name = facts.device, facts.port
            query = self._queries.get(name)
            if query is None:
                mode = [] if name in self._plain else ["-x"]
                query = Query([path, *mode, "-C", facts.device, "-P", str(facts.port)], patience=PATIENCE)
                self._queries[name] = query
            yield from self._counted(name, query.answer())
            if due and name in self._queries:
                query.ask()
                asked.append((name, query))
        until = time.monotonic() + (AT_ONCE if brisk else 0.0)
        for name, query in asked if brisk else ():
            yield from self._counted(name, query.wait(max(0.0, until - time.monotonic())))

    def _counted(self, name: Name, ended: Optional[ChildEnded]) -> Iterator[NamedTuple]:
        blocks = [] if ended is None else parse_perfquery(text(ended.stdout))
        if ended is not None and not blocks:
            said = told("perfquery", text(ended.stderr).strip(), 200) or "status %s" % ended.status
            yield Fault("fabric", "%s/%d: perfquery gave no counters: %s" % (*name, said), 1)
            if name not in self._plain:
                self._plain.add(name)
                del self._queries[name]
        for block in blocks:
            last = self._last.setdefault(name, {})
            news = {key: value for key, value in block.values.items() if last.get(key) != value}
            last.update(news)
            if news:
                yield PortCounters(*name, "perfquery-x" if block.extended else "perfquery", news)
