"""Keys as people read them."""

from __future__ import annotations

_NAMES = {
    "slash": "/", "colon": ":", "question_mark": "?", "exclamation_mark": "!", "asterisk": "*", "at": "@",
    "greater_than_sign": ">", "less_than_sign": "<", "escape": "Esc", "enter": "Enter", "space": "Space", "tab": "Tab",
    "shift+tab": "S-Tab", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "up": "↑", "down": "↓",
    "left": "←", "right": "→", "f1": "F1", "vertical_line": "|", "comma": ",",
    "full_stop": ".", "left_square_bracket": "[", "right_square_bracket": "]",
}  # fmt: skip


def shown_keys(keys: str) -> list[str]:
    """Of Textual's words, several by commas: ``/``, ``^p``, ``Esc``."""
    return [_NAMES.get(key.strip(), key.strip().replace("ctrl+", "^")) for key in keys.split(",")]
