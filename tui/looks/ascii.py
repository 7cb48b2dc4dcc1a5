"""The screen in ASCII alone: each glyph has one of the same width that stands for it."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ASCII = str.maketrans(
    {
        "–": "-", "—": "-", "…": "~", "·": ".", "•": "*", "●": "*", "○": "o", "◌": "?", "◐": "+", "◔": "+", "◆": "#",
        "▲": "!",
        "▼": "v", "✖": "X", "✔": "v", "■": "#", "□": "o", "▸": ">", "▾": "v", "→": ">", "←": "<", "↑": "^", "↓": "v",
        "‹": "<", "›": ">", "⇄": "=", "⏸": "=", "×": "x", "°": " ", "µ": "u", "≥": ">", "≤": "<", "≠": "!",
        "⟨": "<", "⟩": ">", "“": '"', "”": '"', "’": "'",
        "│": "|", "─": "-", "├": "|", "└": "`", "┌": ",", "┐": ".", "┘": "'", "┬": "+", "┴": "+",
        "┏": "#", "┓": "#", "┗": "#", "┛": "#", "┨": "#", "┃": "#", "━": "=", "◀": "<", "▶": ">", "▀": "#",
        "┼": "+", "┤": "|", "╭": ",", "╮": ".", "╰": "`", "╯": "'", "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=",
        "▆": "+", "▇": "*", "█": "#", "▌": "|", "▐": "|", "▎": "|", "▔": "-", "▏": "|", "▕": "|", "▊": "|",
    }
)  # fmt: skip


class AsciiFilter(LineFilter):
    """Replaces every character beyond ASCII at the very end, whoever drew it: one glyph a cell, ``?`` for the rest."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Transform a line's segments, keeping their widths."""
        del background
        return [
            segment if segment.control or segment.text.isascii() else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Return ASCII text of the same width in cells."""
    drawn = text.translate(_ASCII)
    if drawn.isascii():
        return drawn
    return "".join(character if character.isascii() else "?" * cell_len(character) for character in drawn)
