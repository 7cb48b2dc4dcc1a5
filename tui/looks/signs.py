"""A glyph, a word and a colour for each state: what colours say stands there without them, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tui.looks.theme import Colour


class OutcomeSign(NamedTuple):
    """How a verdict is shown."""

    word: str
    """Behind its glyph."""
    colour: Colour
    loud: int = 0
    """Place of its ground among the alarms of :class:`~tui.looks.theme.Palette`."""


class Sign(NamedTuple):
    """How something that happened is shown."""

    glyph: str
    colour: Colour
    label: str
    """A word or two."""
    rank: int
    """Of several in one place the highest is shown."""


_OUTCOMES = {
    "hung": OutcomeSign("■ HUNG", Colour.BAD, 2),
    "crashed": OutcomeSign("✖ CRASHED", Colour.BAD, 2),
    "at_risk": OutcomeSign("▲ AT RISK", Colour.BAD, 1),
    "slow": OutcomeSign("▲ SLOW", Colour.WARN, 1),
    "waiting": OutcomeSign("◔ WAITING", Colour.WARN, 1),
    "starting": OutcomeSign("◐ STARTING", Colour.INFO),
    "healthy": OutcomeSign("● HEALTHY", Colour.OK),
    "idle": OutcomeSign("○ IDLE", Colour.DIM),
    "unknown": OutcomeSign("◌ UNKNOWN", Colour.WARN),
}

_SIGNS = {
    "hangtop": Sign("·", Colour.DIM, "", 0),
    "other": Sign("·", Colour.DIM, "", 0),
    "unknown": Sign("◌", Colour.WARN, "unknown", 1),
    "idle": Sign("○", Colour.DIM, "idle", 1),
    "starting": Sign("◐", Colour.INFO, "starting", 1),
    "waiting": Sign("◔", Colour.INFO, "waiting", 2),
    "started": Sign("▸", Colour.TEXT, "started", 2),
    "back": Sign("●", Colour.OK, "back", 2),
    "healthy": Sign("●", Colour.OK, "healthy", 2),
    "dump": Sign("◆", Colour.INFO, "dump", 3),
    "repair": Sign("◆", Colour.INFO, "repair", 3),
    "late": Sign("▲", Colour.WARN, "late", 4),
    "ended": Sign("▾", Colour.WARN, "ended", 4),
    "stopped": Sign("▲", Colour.WARN, "stopped", 5),
    "port": Sign("▲", Colour.WARN, "port", 5),
    "slow": Sign("▲", Colour.WARN, "slow", 6),
    "kernel": Sign("▲", Colour.BAD, "kernel", 6),
    "gpu": Sign("▲", Colour.BAD, "gpu", 6),
    "lost": Sign("✖", Colour.BAD, "lost", 6),
    "at_risk": Sign("▲", Colour.BAD, "at risk", 7),
    "mark": Sign("▼", Colour.ACCENT, "mark", 8),
    "crashed": Sign("✖", Colour.BAD, "crash", 9),
    "hung": Sign("■", Colour.BAD, "hang", 9),
}

_LINKS = {
    "live": ("●", Colour.OK),
    "limited": ("◐", Colour.WARN),
    "connecting": ("○", Colour.DIM),
    "stale": ("◌", Colour.WARN),
    "lost": ("✖", Colour.BAD),
    "offline": ("■", Colour.DIM),
}

SEVERITIES: Mapping[str, tuple[str, Colour]] = {
    "critical": ("✖", Colour.BAD),
    "warning": ("▲", Colour.WARN),
    "info": ("●", Colour.INFO),
}


def outcome_sign(outcome: str) -> OutcomeSign:
    """How a verdict is shown; a word of a later version by itself."""
    return _OUTCOMES.get(outcome) or OutcomeSign(f"◌ {outcome.replace('_', ' ').upper()}", Colour.WARN)


def is_outcome(kind: str) -> bool:
    """Whether a change tells of a verdict."""
    return kind in _OUTCOMES


def change_sign(kind: str) -> Sign:
    """How a change of a kind is shown."""
    return _SIGNS.get(kind) or Sign("·", Colour.DIM, kind.replace("_", " "), 1)


def link_sign(link: str) -> tuple[str, Colour]:
    """Glyph and colour of the state of a connection to a node."""
    return _LINKS.get(link, ("?", Colour.WARN))
