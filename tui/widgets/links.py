"""How the state of a connection to a node is shown."""

from __future__ import annotations

from tui.looks.theme import Tone

_LINKS = {
    "live": ("●", Tone.OK),
    "limited": ("◐", Tone.WARN),
    "connecting": ("○", Tone.DIM),
    "stale": ("◌", Tone.WARN),
    "lost": ("✖", Tone.BAD),
    "offline": ("■", Tone.DIM),
}


def link_glyph(link: str) -> tuple[str, Tone]:
    """A glyph of its own for every state of a connection."""
    return _LINKS[link]
