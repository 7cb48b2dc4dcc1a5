"""What changed lately, with what happened to many ranks of a node at once told in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hangtop.diagnosis.words import folded
from hangtop.session.state import Change

TOGETHER = 2.0
"""Seconds within which the same change of several ranks is one."""

_RANK = re.compile(r"rank (\d+) (.*?)(?: \(pid \d+\))?$")


def told(changes: Iterable[Change], most: int) -> list[Change]:
    """The newest changes first, at most ``most``; ``rank 3 started`` and its like folded to ``ranks 0-7 started``."""
    lines: list[Change] = []
    ranks: list[int] = []
    before: tuple[str, str] | None = None
    for change in changes:
        match = _RANK.match(change.text)
        key = None if match is None else (change.node, match[2])
        if match is not None and key == before and lines[-1].at - change.at <= TOGETHER:
            ranks.append(int(match[1]))
            happened = match[2].replace("is ", "are ", 1) if match[2].startswith("is ") else match[2]
            lines[-1] = Change(lines[-1].at, change.node, f"ranks {folded(ranks)} {happened}")
            continue
        if len(lines) == most:
            break
        lines.append(change)
        before, ranks = key, [] if match is None else [int(match[1])]
    return lines
