"""What happened: kept by kind, so that many of one never push out the few of another; and as marks of time."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from hangtop.diagnosis.finding import Outcome

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

MOST = 4096
"""Changes of one kind that are kept."""


@dataclass(slots=True)
class Change:
    """Something that happened, for the overview and the timeline."""

    at: float
    node: str
    text: str
    kind: ChangeKind = "other"


class Changes:
    """As they were noted, the newest last; of each kind the newest are kept."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._of: dict[ChangeKind, deque[tuple[int, Change]]] = {}
        """Those of each kind, each with its number since the beginning."""
        self.noted = 0
        """How many there were since the beginning."""
        for change in changes:
            self.append(change)

    def append(self, change: Change) -> None:
        """Note one; the oldest of its kind goes once there are too many of that."""
        self._of.setdefault(change.kind, deque(maxlen=MOST)).append((self.noted, change))
        self.noted += 1

    def kinds(self) -> list[ChangeKind]:
        """Kinds of which there are any."""
        return list(self._of)

    def of(self, kind: ChangeKind) -> Iterator[Change]:
        """Those of one kind, the newest first."""
        return (change for _, change in reversed(self._of.get(kind, ())))

    def since(self, noted: int) -> list[Change]:
        """Those that came after so many, in order, as far as they are kept."""
        later = sorted((pair for kept in self._of.values() for pair in kept if pair[0] >= noted), key=itemgetter(0))
        return [change for _, change in later]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.since(0))
