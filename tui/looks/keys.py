"""Keys as people read them."""

from __future__ import annotations

from textual.keys import format_key

_WORDS = {
    "escape": "Esc", "enter": "Enter", "space": "Space", "tab": "Tab", "shift+tab": "S-Tab", "pageup": "PgUp",
    "pagedown": "PgDn", "home": "Home", "end": "End", "f1": "F1",
}  # fmt: skip
"""Keys that are words; of all others Textual knows the character."""


def shown_keys(keys: str) -> list[str]:
    """Of Textual's words, several by commas: ``/``, ``^p``, ``Esc``."""
    return [_WORDS.get(key.strip()) or format_key(key.strip()).replace("ctrl+", "^") for key in keys.split(",")]
