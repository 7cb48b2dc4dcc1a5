"""Lines of text whose pieces say what they are, so that a command and the screen can show the same lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Shade = Literal["", "dim", "strong", "good", "middling", "bad"]
"""What a piece of text is; it never carries meaning that its words or glyphs do not."""

Piece = tuple[str, Shade]
Line = list[Piece]


def plain(lines: Iterable[Line]) -> Iterable[str]:
    """The lines without their shades."""
    return ("".join(text for text, _ in line) for line in lines)
