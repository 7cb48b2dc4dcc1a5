"""What a recording holds: entries of a time, a node and a sample, or of one of the few other kinds here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from collectors.fleet.sink import LinkChange
from collectors.node.source import identity
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.fabric import InterfaceCounters, PortCounters
from collectors.samples.gpus import NvlinkCounters
from collectors.samples.inside import InsideGone
from collectors.samples.ranks import CpuWait, Helper, HelperGone, IdleLauncher, RankGone, RankProcess, RankPulse
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Hello, Tick


class About(NamedTuple):
    """What was recorded."""

    version: str
    targets: list[str]
    interval: float
    patience: float
    label: str
    format: int = 3


class BadLine(NamedTuple):
    """A line of a node that did not decode."""

    text: str
    why: str


OTHERS = (LinkChange, BadLine, StackDump, RecorderDump, RasReport)
"""Kinds of entries that are no samples of a node's stream; the times of a dump are this machine's."""
Payload: TypeAlias = "NamedTuple | LinkChange"


class Entry(NamedTuple):
    """One thing that was taken in."""

    at: float
    node: str
    payload: Payload


EVENTS_KEPT: dict[type, Callable[[Any], object]] = {
    Hello: lambda _: (),
    Tick: lambda _: (),
    LinkChange: lambda _: (),
    RankGone: attrgetter("pid"),
    InsideGone: attrgetter("pid"),
    IdleLauncher: attrgetter("pid"),
    PortCounters: attrgetter("device", "port", "source"),
    RecorderDump: attrgetter("rank"),
}
"""What tells apart the things of those kinds which their source always sends; for the other ones see ``identity``."""
COUNTERS = frozenset((PortCounters, NvlinkCounters, InterfaceCounters))
"""Kinds of which the first sample counts too: errors are told by what a counter grew."""
ITS: dict[type, tuple[type, ...]] = {HelperGone: (Helper,), RankGone: (RankPulse, CpuWait)}
"""What is no longer worth to be known of a process that ended."""
MOST = 8192
"""Things of one node; the oldest give way."""
ENDED_KEPT = 3600.0
"""Seconds for which a rank that ended is in snapshots."""


class Newest:
    """The newest entry of each thing on each node: played in order, they make the state of this moment."""

    def __init__(self) -> None:
        self._of: dict[str, dict[object, Entry]] = {}

    def take(self, entries: Iterable[Entry]) -> None:
        """Take what came."""
        for entry in entries:
            payload: Any = entry.payload
            kind = type(payload)
            known = self._of.setdefault(entry.node, {})
            for its in ITS.get(kind, ()):
                known.pop((its.__name__, payload.pid), None)
            key = (kind.__name__, EVENTS_KEPT[kind](payload)) if kind in EVENTS_KEPT else identity(payload)
            if key is None:  # no later one takes its place: it is part of no snapshot
                continue
            before = known.pop(key, None)
            if kind in COUNTERS:
                known.setdefault((*key, "first"), entry)
            if kind is PortCounters and before is not None:  # those that did not change are not sent
                payload = payload._replace(values=before.payload.values | payload.values)  # type: ignore[union-attr]
            known[key] = Entry(entry.at, entry.node, payload)
            if len(known) > MOST:
                del known[next(iter(known))]

    def snapshot(self, at: float) -> list[Entry]:
        """All of them in the order of their times; ranks that ended long ago are forgotten."""
        for known in self._of.values():
            gone = [(one.at, one.payload.pid) for one in known.values() if isinstance(one.payload, RankGone)]
            for kind, pid in product((RankProcess, RankGone), [pid for when, pid in gone if when < at - ENDED_KEPT]):
                known.pop((kind.__name__, pid), None)
        return sorted((entry for known in self._of.values() for entry in known.values()), key=lambda entry: entry.at)
