"""What a recording holds: entries of a time, a node and a sample, or of one of the few other kinds here."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from collectors.fleet.decode import BadLine
from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.registry import IDENTITY
from collectors.samples.stacks import StackDump


class RecordingError(Exception):
    """A recording cannot be written or read; the text names the file and says why."""


FORMAT = 7
"""Raised when fields of samples come or go: of other numbers nothing can be read."""


class About(NamedTuple):
    """What was recorded."""

    version: str
    targets: list[str]
    interval: float
    patience: float
    label: str
    format: int = FORMAT


OTHERS = (LinkChange, BadLine, StackDump, RecorderDump, RasReport)
"""Kinds of entries that are no samples of a node's stream; the times of a dump are this machine's."""
Payload: TypeAlias = "NamedTuple | LinkChange"


class Entry(NamedTuple):
    """One thing that was taken in."""

    at: float
    node: str
    payload: Payload


_KEYS = {
    **{kind.__name__: positions for kind, positions in IDENTITY.items()},
    **dict.fromkeys(("Hello", "Tick", "LinkChange"), ()),
    **dict.fromkeys(("ProcessGone", "RecorderDump"), (0,)),
}
"""Positions of the fields that tell apart the things of a kind; other kinds are events, which no snapshot repeats."""
_COUNTERS = ("Counters", "NvlinkCounters")
"""Kinds of which the first sample counts too: errors are told by what a counter grew."""
MOST = 8192
"""Things of one node; the oldest give way."""


class Newest:
    """The newest entry of each thing on each node: played in order, they make the state of this moment."""

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[object, ...], Entry]] = {}

    def take(self, entry: Entry) -> None:
        """Take what came."""
        payload: Any = entry.payload
        kind, known = type(payload).__name__, self._of.setdefault(entry.node, {})
        if kind == "ProcessGone":
            known.pop(("Helper", payload.pid), None)
            known.pop(("IdleLauncher", payload.pid), None)
        if kind not in _KEYS or (kind == "ProcessGone" and ("RankProcess", payload.pid) not in known):
            return
        key = (kind, *[payload[position] for position in _KEYS[kind]])
        before: Any = known.pop(key, None)
        if kind in _COUNTERS:
            known.setdefault((*key, "first"), entry)
        if kind == "Counters" and before is not None:  # those that did not change are not sent
            entry = entry._replace(payload=payload._replace(values=before.payload.values | payload.values))
        known[key] = entry
        if len(known) > MOST:
            del known[next(iter(known))]

    def entries(self) -> list[Entry]:
        """All of them in the order of their times."""
        return sorted((entry for known in self._of.values() for entry in known.values()), key=lambda entry: entry.at)
