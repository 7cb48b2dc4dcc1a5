"""``ibstat`` and ``perfquery``: for containers that see no sysfs, and for ports without counters in it."""

from __future__ import annotations

import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.child import ChildEnded, Query, find, told
from collectors.node.files import text
from collectors.node.network import ibstat, perfquery
from collectors.node.source import Absent, NotResponding
from collectors.samples.fabric import PortCounters, PortFacts
from collectors.samples.stream import Fault

PERIOD = 5.0
"""Seconds between two questions, …"""
BRISK = 1.4
"""… and while a stream is young."""
AT_ONCE = 0.5
"""Seconds that answers are waited for then: else they come with the next look, when the watch may be over."""
PATIENCE = 20.0
"""Seconds that one tool may take."""
LATE = 5.0
"""Seconds without an answer of ibstat's after which what it said last is old."""
NOTHING = "no InfiniBand or RoCE adapter on this node"

Name = Tuple[str, int]


class PortStates:
    """Ports as ``ibstat`` tells them. All times are of one monotonic clock."""

    def __init__(self) -> None:
        self._query: Optional[Query] = None
        self._due = 0.0
        self._ports: List[PortFacts] = []
        self._why = NOTHING
        self._silent: Optional[float] = None
        """When the first of the questions was asked that it has not answered."""

    def look(self, moment: float, *, brisk: bool = False) -> List[PortFacts]:
        """Ports by the last answer.

        Raises :class:`Absent` where there is no ibstat, or it shows no adapter, and :class:`NotResponding` while it
        gives no answer.
        """
        if self._query is None:
            path = find("ibstat")
            if path is None:
                raise Absent(NOTHING)
            self._query = Query([path], patience=PATIENCE)
        if moment >= self._due and not self._query.waits:
            self._due = moment + (BRISK if brisk else PERIOD)
            self._query.ask()
            self._silent = moment if self._silent is None else self._silent
        ended = self._query.wait(0.0 if self._ports else 1.0)
        if ended is not None and ended.status is not None:
            self._silent = None
            self._ports = ibstat.parse(text(ended.stdout))
            said = told("ibstat", text(ended.stderr).strip(), 200)
            self._why = "%s; ibstat says: %s" % (NOTHING, said) if said else NOTHING
        if self._silent is not None and moment - self._silent > LATE:
            raise NotResponding("ibstat", moment - self._silent)
        if not self._ports and not self._query.waits:
            raise Absent(self._why)
        return self._ports


class PortCounts:
    """Counters as ``perfquery`` tells them: the extended ones, or the plain ones where those are not to be had."""

    def __init__(self) -> None:
        self._due = 0.0
        self._queries: Dict[Name, Query] = {}
        self._plain: Set[Name] = set()
        self._last: Dict[Name, Dict[str, int]] = {}

    def look(self, ports: Sequence[PortFacts], moment: float, *, brisk: bool = False) -> Iterator[NamedTuple]:
        """Counters of these ports that moved since the last answers."""
        path = find("perfquery") if ports else None
        if path is None:
            return
        due = moment >= self._due
        if due:
            self._due = moment + (BRISK if brisk else PERIOD)
        for facts in ports:
            name = facts.device, facts.port
            query = self._queries.get(name)
            if query is None:
                mode = [] if name in self._plain else ["-x"]
                query = Query([path, *mode, "-C", facts.device, "-P", str(facts.port)], patience=PATIENCE)
                self._queries[name] = query
            ended = query.answer()
            if ended is not None:
                yield from self._counted(name, ended)
            if due and name in self._queries:
                query.ask()
        until = time.monotonic() + AT_ONCE
        while due and brisk and time.monotonic() < until and any(query.waits for query in self._queries.values()):
            time.sleep(0.01)
            for name, query in list(self._queries.items()):
                ended = query.answer()
                if ended is not None:
                    yield from self._counted(name, ended)

    def _counted(self, name: Name, ended: ChildEnded) -> Iterator[NamedTuple]:
        blocks = perfquery.parse(text(ended.stdout))
        if not blocks:
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
