"""Pieces of a line put together: neighbours of one style become one segment, which is less to draw and less to send."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


class Runs:
    """Collects a line from left to right. Texts are harmless and as wide as they say."""

    __slots__ = ("_segments", "_style", "_text")

    def __init__(self, style: Style, text: str = "") -> None:
        self._segments: list[Segment] = []
        self._style, self._text = style, text

    def add(self, text: str, style: Style) -> None:
        """Put a piece to the right."""
        if style is self._style:
            self._text += text
        elif text:
            if self._text:
                self._segments.append(Segment(self._text, self._style))
            self._text, self._style = text, style

    def strip(self, width: int | None = None) -> Strip:
        """The line, which is ``width`` cells wide; where nobody knows, its texts are counted."""
        if self._text:
            self._segments.append(Segment(self._text, self._style))
        return Strip(self._segments, width)
