"""What a recording holds: entries of a time, a node and a sample, or of one of the few other kinds here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from collectors.fleet.sink import LinkChange
from collectors.node.source import identity
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.fabric import InterfaceCounters, PortCounters
from collectors.samples.gpus import NvlinkCounters
from collectors.samples.inside import InsideGone
from collectors.samples.ranks import HelperGone, IdleLauncher, RankGone
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Hello, Tick


class RecordingError(Exception):
    """A recording cannot be written or read; the text names the file and says why."""


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


_EVENTS: dict[type, Callable[[Any], object]] = {
    Hello: lambda _: (),
    Tick: lambda _: (),
    LinkChange: lambda _: (),
    RankGone: attrgetter("pid"),
    InsideGone: attrgetter("pid"),
    IdleLauncher: attrgetter("pid"),
    PortCounters: attrgetter("device", "port", "source"),
    RecorderDump: attrgetter("rank"),
}
"""What tells apart the things of kinds which their source always sends; for the other kinds see ``identity``."""
_COUNTERS = frozenset((PortCounters, NvlinkCounters, InterfaceCounters))
"""Kinds of which the first sample counts too: errors are told by what a counter grew."""
MOST = 8192
"""Things of one node; the oldest give way."""


class Newest:
    """The newest entry of each thing on each node: played in order, they make the state of this moment."""

    def __init__(self) -> None:
        self._of: dict[str, dict[object, Entry]] = {}

    def take(self, entry: Entry) -> None:
        """Take what came."""
        payload: Any = entry.payload
        kind = type(payload)
        known = self._of.setdefault(entry.node, {})
        if kind is HelperGone:
            known.pop(("Helper", payload.pid), None)
        key = (kind.__name__, _EVENTS[kind](payload)) if kind in _EVENTS else identity(payload)
        if key is None:  # no later one takes its place: it is part of no snapshot
            return
        before = known.pop(key, None)
        if kind in _COUNTERS:
            known.setdefault((*key, "first"), entry)
        if kind is PortCounters and before is not None:  # those that did not change are not sent
            entry = entry._replace(payload=payload._replace(values=before.payload.values | payload.values))  # type: ignore[union-attr]
        known[key] = entry
        if len(known) > MOST:
            del known[next(iter(known))]

    def entries(self) -> Iterable[Entry]:
        """All of them in the order of their times."""
        return sorted((entry for known in self._of.values() for entry in known.values()), key=lambda entry: entry.at)
