"""What changed lately, with what happened to many ranks of a node at once told in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hangtop.diagnosis.phrasing import folded
from hangtop.session.history.marks import Mark
from hangtop.session.state import Change, ChangeKind
from tui.theme import Tone

TOGETHER = 2.0
"""Seconds within which the same change of several ranks is one."""


class Sign(NamedTuple):
    """How a kind of change is shown."""

    glyph: str
    tone: Tone
    label: str
    """A word or two."""
    rank: int
    """Of several in one place the highest is shown."""


MARKS: Mapping[ChangeKind, Sign] = {
    "hangtop": Sign("·", Tone.DIM, "", 0),
    "other": Sign("·", Tone.DIM, "", 0),
    "unknown": Sign("◌", Tone.WARN, "unknown", 1),
    "idle": Sign("○", Tone.DIM, "idle", 1),
    "starting": Sign("◐", Tone.INFO, "starting", 1),
    "started": Sign("▸", Tone.TEXT, "started", 2),
    "back": Sign("●", Tone.OK, "back", 2),
    "healthy": Sign("●", Tone.OK, "healthy", 2),
    "dump": Sign("◆", Tone.INFO, "dump", 3),
    "repair": Sign("◆", Tone.INFO, "repair", 3),
    "late": Sign("▲", Tone.WARN, "late", 4),
    "ended": Sign("▾", Tone.WARN, "ended", 4),
    "stopped": Sign("▲", Tone.WARN, "stopped", 5),
    "port": Sign("▲", Tone.WARN, "port", 5),
    "slow": Sign("▲", Tone.WARN, "slow", 6),
    "kernel": Sign("▲", Tone.BAD, "kernel", 6),
    "gpu": Sign("▲", Tone.BAD, "gpu", 6),
    "lost": Sign("✖", Tone.BAD, "lost", 6),
    "at_risk": Sign("▲", Tone.BAD, "at risk", 7),
    "mark": Sign("▼", Tone.ACCENT, "mark", 8),
    "crashed": Sign("✖", Tone.BAD, "crash", 9),
    "hung": Sign("■", Tone.BAD, "hang", 9),
}


def label_of(mark: Mark) -> str:
    """What a mark is, in a word or two."""
    return mark.text if mark.kind == "mark" else MARKS[mark.kind].label


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
            lines[-1] = Change(lines[-1].at, change.node, f"ranks {folded(ranks)} {happened}", change.kind)
            continue
        if len(lines) == most:
            break
        lines.append(change)
        before, ranks = key, [] if match is None else [int(match[1])]
    return lines
