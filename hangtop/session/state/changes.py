"""What happened, kept by kind, and as marks of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hangtop.diagnosis.finding import Outcome
from hangtop.session.state.kept import Kept

TOGETHER = 5.0
"""Seconds within which the same thing happened once."""
SILENT: frozenset[ChangeKind] = frozenset({"hangtop", "other", "starting", "unknown"})
"""What is no mark."""


@dataclass(slots=True)
class TimelineMark:
    """One mark."""

    at: float
    until: float
    """When the last of what is told here happened."""
    kind: ChangeKind
    node: str
    """The first node; empty for the job as a whole."""
    text: str
    """Of the first."""
    count: int = 1


def marks(changes: Iterable[Change]) -> list[TimelineMark]:
    """Marks of what happened, the oldest first; ``changes`` come as they were noted, some a little late."""
    found: list[TimelineMark] = []
    last: dict[ChangeKind, TimelineMark] = {}
    for change in sorted(changes, key=lambda change: change.at):
        if change.kind in SILENT:
            continue
        known = last.get(change.kind)
        if known is not None and change.at - known.until <= TOGETHER:
            known.until = change.at
            known.count += 1
            continue
        mark = last[change.kind] = TimelineMark(change.at, change.at, change.kind, change.node, change.text)
        found.append(mark)
    return found


def beside(found: list[TimelineMark], at: float, step: int) -> TimelineMark | None:
    """The next mark after a time (``step`` 1), or the last one before it (-1); None where there is none."""
    place = bisect_right(found, at, key=lambda mark: mark.at)
    if step > 0:
        return found[place] if place < len(found) else None
    before = [mark for mark in found[:place] if mark.at < at]
    return before[-1] if before else None


ChangeKind = (
    Literal["started", "ended", "stopped", "lost", "back", "late", "gpu", "port", "kernel", "dump", "repair"]
    | Literal["hangtop", "other"]
    | Outcome
)
"""What happened: to a rank, a node, a source of samples, a GPU, a port or the kernel; what somebody asked for; what a
verdict says from then on; ``hangtop``: what matters to hangtop alone."""


@dataclass(slots=True)
class Change:
    """Something that happened, for the overview and the timeline."""

    at: float
    node: str
    text: str
    kind: ChangeKind = "other"


class Changes(Kept[Change]):
    """What happened, by kind."""

    def append(self, change: Change) -> None:
        """Note one."""
        self.add(change.kind, change)
