"""Removal of terminal control codes and invisible characters from texts that nodes, files and tools supply.

Escape sequences are removed with their contents (an OSC title, a CSI colour). Of other control codes, bidirectional
overrides, zero-width and other format characters only the character itself goes. Tabs and line feeds stay.
"""

from __future__ import annotations

import re
from typing import Any

_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, hyperlinks, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|\x1b[ -/]*[0-~]"  # all other escape sequences
)
_BREAKS = re.compile("\r\n|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
LAST_LINE = 300
"""Characters kept of a line that says why a program failed."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text without control codes, escape sequences and invisible format characters.

    A carriage return becomes a space (progress bars), a lone surrogate becomes the replacement character.
    """
    if text.isprintable():  # covers almost everything, at the cost of one pass in C
        return text
    if "\x1b" in text or not text.isascii():
        text = _SURROGATE.sub("\ufffd", _ESCAPES.sub("", text))
    text = _BREAKS.sub("\n", text).replace("\r", " ")
    return _INVISIBLE.sub("", text)


def clean_bytes(data: bytes) -> str:
    """UTF-8 bytes as cleaned text; invalid bytes become the replacement character."""
    return clean(data.decode("utf-8", "replace"))


def last_line(data: bytes | bytearray) -> str:
    """The last line of a program's output, which says why it failed: cleaned, cut; empty without output."""
    return clean_bytes(bytes(data)).strip().rpartition("\n")[2].strip()[:LAST_LINE]


def clean_value(value: Any) -> Any:
    """The value with every text cleaned, also inside NamedTuples, lists and dictionaries."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(clean_value(item) for item in value))
    if isinstance(value, list):
        return [clean_value(item) for item in value]
    if isinstance(value, dict):
        return {clean_value(key): clean_value(item) for key, item in value.items()}
    return value
