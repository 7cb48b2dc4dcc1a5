"""A glyph, a word and a tone for each state: what colours say stands there without them, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tui.looks.theme import Tone


class Outcome(NamedTuple):
    """How a verdict is shown."""

    word: str
    """Behind its glyph."""
    tone: Tone
    loud: int = 0
    """Place of its ground among the alarms of :class:`~tui.looks.theme.Ink`."""


class Sign(NamedTuple):
    """How something that happened is shown."""

    glyph: str
    tone: Tone
    label: str
    """A word or two."""
    rank: int
    """Of several in one place the highest is shown."""


_OUTCOMES = {
    "hung": Outcome("■ HUNG", Tone.BAD, 2),
    "crashed": Outcome("✖ CRASHED", Tone.BAD, 2),
    "at_risk": Outcome("▲ AT RISK", Tone.BAD, 1),
    "slow": Outcome("▲ SLOW", Tone.WARN, 1),
    "waiting": Outcome("◔ WAITING", Tone.WARN, 1),
    "starting": Outcome("◐ STARTING", Tone.INFO),
    "healthy": Outcome("● HEALTHY", Tone.OK),
    "idle": Outcome("○ IDLE", Tone.DIM),
    "unknown": Outcome("◌ UNKNOWN", Tone.WARN),
}

_SIGNS = {
    "hangtop": Sign("·", Tone.DIM, "", 0),
    "other": Sign("·", Tone.DIM, "", 0),
    "unknown": Sign("◌", Tone.WARN, "unknown", 1),
    "idle": Sign("○", Tone.DIM, "idle", 1),
    "starting": Sign("◐", Tone.INFO, "starting", 1),
    "waiting": Sign("◔", Tone.INFO, "waiting", 2),
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

_LINKS = {
    "live": ("●", Tone.OK),
    "limited": ("◐", Tone.WARN),
    "connecting": ("○", Tone.DIM),
    "stale": ("◌", Tone.WARN),
    "lost": ("✖", Tone.BAD),
    "offline": ("■", Tone.DIM),
}

SEVERITIES: Mapping[str, tuple[str, Tone]] = {
    "critical": ("✖", Tone.BAD),
    "warning": ("▲", Tone.WARN),
    "info": ("●", Tone.INFO),
}


def outcome_sign(outcome: str) -> Outcome:
    """How a verdict is shown; a word of a later version by itself."""
    return _OUTCOMES.get(outcome) or Outcome(f"◌ {outcome.replace('_', ' ').upper()}", Tone.WARN)


def is_outcome(kind: str) -> bool:
    """Whether a change tells of a verdict."""
    return kind in _OUTCOMES


def change_sign(kind: str) -> Sign:
    """How a change of a kind is shown."""
    return _SIGNS.get(kind) or Sign("·", Tone.DIM, kind.replace("_", " "), 1)


def link_sign(link: str) -> tuple[str, Tone]:
    """Glyph and tone of the state of a connection to a node."""
    return _LINKS.get(link, ("?", Tone.WARN))
