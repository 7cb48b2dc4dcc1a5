"""What happened, as marks on the line of time: what happened to many at once is one of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from hangtop.session.state.changes import Change, ChangeKind

TOGETHER = 5.0
"""Seconds within which the same thing happened once."""
SILENT: frozenset[ChangeKind] = frozenset({"hangtop", "other", "starting", "unknown"})
"""What is no mark."""


@dataclass(slots=True)
class Mark:
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


def marks(changes: Iterable[Change]) -> list[Mark]:
    """Marks of what happened, the oldest first; ``changes`` come as they were noted, some a little late."""
    found: list[Mark] = []
    last: dict[ChangeKind, Mark] = {}
    for change in sorted(changes, key=lambda change: change.at):
        if change.kind in SILENT:
            continue
        known = last.get(change.kind)
        if known is not None and change.kind != "mark" and change.at - known.until <= TOGETHER:
            known.until = change.at
            known.count += 1
            continue
        mark = last[change.kind] = Mark(change.at, change.at, change.kind, change.node, change.text)
        found.append(mark)
    return found


def beside(found: list[Mark], at: float, step: int) -> Mark | None:
    """The next mark after a time (``step`` 1), or the last one before it (-1); None where there is none."""
    place = bisect_right(found, at, key=lambda mark: mark.at)
    if step > 0:
        return found[place] if place < len(found) else None
    before = [mark for mark in found[:place] if mark.at < at]
    return before[-1] if before else None
