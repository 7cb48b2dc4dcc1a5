"""A glyph, a word and a colour for each state, so that no state is shown by colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tui.looks.theme import Colour


class Sign(NamedTuple):
    """The sign of a verdict or event."""

    glyph: str
    colour: Colour
    label: str
    """A word or two."""
    rank: int
    """Priority: of several signs in one place, the highest is shown."""
    loud: int = 0
    """Alarm level of a verdict: 0 none, 1 warning, 2 critical."""


_OUTCOMES = {
    "unknown": Sign("◌", Colour.WARN, "unknown", 1),
    "idle": Sign("○", Colour.DIM, "idle", 1),
    "starting": Sign("◐", Colour.INFO, "starting", 1),
    "waiting": Sign("◔", Colour.WARN, "waiting", 2, 1),
    "healthy": Sign("●", Colour.OK, "healthy", 2),
    "slow": Sign("▲", Colour.WARN, "slow", 6, 1),
    "at_risk": Sign("▲", Colour.BAD, "at risk", 7, 1),
    "crashed": Sign("✖", Colour.BAD, "crashed", 9, 2),
    "hung": Sign("■", Colour.BAD, "hung", 9, 2),
}
_SIGNS = {
    **_OUTCOMES,
    "hangtop": Sign("·", Colour.DIM, "", 0),
    "other": Sign("·", Colour.DIM, "", 0),
    "started": Sign("▸", Colour.TEXT, "started", 2),
    "back": Sign("●", Colour.OK, "back", 2),
    "dump": Sign("◆", Colour.INFO, "dump", 3),
    "late": Sign("▲", Colour.WARN, "late", 4),
    "ended": Sign("▾", Colour.WARN, "ended", 4),
    "stopped": Sign("▲", Colour.WARN, "stopped", 5),
    "port": Sign("▲", Colour.WARN, "port", 5),
    "kernel": Sign("▲", Colour.BAD, "kernel", 6),
    "gpu": Sign("▲", Colour.BAD, "gpu", 6),
    "lost": Sign("✖", Colour.BAD, "lost", 6),
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


def is_outcome(kind: str) -> bool:
    """True if the kind of a change is a verdict."""
    return kind in _OUTCOMES


def sign_of(kind: str) -> Sign:
    """The sign of a verdict or kind of change."""
    return _SIGNS.get(kind) or Sign("·", Colour.DIM, kind.replace("_", " "), 1)


def link_sign(link: str) -> tuple[str, Colour]:
    """Glyph and colour of the state of a connection to a node."""
    return _LINKS.get(link, ("?", Colour.WARN))
