"""Text from nodes: made harmless, measured in cells, cut and padded to a width."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from rich.cells import cell_len, set_cell_size

Align = Literal["left", "right"]

CUT = "…"
"""Marks cut text."""

_REPLACED = "·"
_PATH = re.compile(r"(/[^/\s()]+)(?:/[^/\s()]+){3,}/([^/\s()]+)")
"""A path of five parts or more; its first and last part are the groups."""


def harmless(text: str) -> str:
    """Replace every character that could move the cursor, reorder text or fail to encode by a visible dot.

    These are all characters that Unicode does not call printable: control codes (including ESC), line and paragraph
    separators, directional and zero-width format characters, surrogates, private use. A tab and any wide or hard space
    become one space.
    """
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character == "\t" or unicodedata.category(character) == "Zs" else _REPLACED


def cells(text: str) -> int:
    """Width of harmless text in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """Return harmless text of exactly ``width`` cells: padded opposite to ``align``, or cut with an ellipsis."""
    if width <= 0:
        return ""
    if not text.isprintable():
        text = harmless(text)
    size = cells(text)
    if size <= width:
        return text + " " * (width - size) if align == "left" else " " * (width - size) + text
    if text.isascii():
        return text[: width - 1] + CUT
    return set_cell_size(text, width - 1) + CUT


def clip(text: str, width: int) -> str:
    """Harmless text of at most ``width`` cells: whole, or cut after a word if one ends in its second half."""
    text = harmless(text)
    if cells(text) <= width:
        return text
    head = fit(text, width).removesuffix(CUT)
    space = len(head) if text[len(head) :].startswith(" ") else head.rfind(" ")
    return (head[:space].rstrip(" ,;:·([") if space > len(head) // 2 else head) + CUT if width > 0 else ""


def short_paths(text: str) -> str:
    """The sentence with long paths shortened in the middle."""
    return _PATH.sub(lambda path: f"{path[1]}/{CUT}/{path[2]}", text)


def line_of(text: str, width: int, place: int) -> str:
    """Line number ``place`` of a sentence wrapped with margins of two cells; empty beyond its end."""
    lines = wrap(text, max(1, width - 4))
    return f"  {lines[place]}" if 0 <= place < len(lines) else ""


def wrap(text: str, width: int) -> list[str]:
    """Wrap text, made harmless, into lines of at most ``width`` cells, at spaces if possible."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        rest = harmless(paragraph)
        while cells(rest) > width:
            head = rest[:width] if rest.isascii() else set_cell_size(rest, width).rstrip()
            # a wide character in a one-cell column must still be consumed
            head = head or rest[:1]
            space = len(head) if rest[len(head) :].startswith(" ") else head.rfind(" ")
            word = rest[space + 1 :].split(" ", 1)[0]
            # do not break a word that fits into a line of its own
            end = space if space > width // 3 or (space > 0 and cells(word) <= width) else len(head)
            lines.append(rest[:end].rstrip())
            rest = rest[end:].lstrip()
        lines.append(rest)
    return lines
