"""Facts about one thing in the lines that a table leaves free."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from tui.looks.text import cells
from tui.looks.theme import Tone
from tui.widgets.breaking import broken
from tui.widgets.lines import Content, Lines, ruled, strip_of


class Details(Lines, can_focus=False):
    """A title in a line, then labels and values in as many columns as have room."""

    def __init__(self) -> None:
        super().__init__()
        self._title = ""
        self._facts: Sequence[tuple[str, str]] = ()
        self._content: Content = []

    def show(self, title: str, facts: Sequence[tuple[str, str]]) -> None:
        """Show these facts."""
        self._title, self._facts = title, facts
        self.resized()

    def resized(self) -> None:
        """Lay out the facts for this width."""
        width = max(20, self.size.width)
        label = max((cells(name) for name, _ in self._facts), default=0)
        lines: Content = []
        for name, value in self._facts:
            for place, text in enumerate(value.splitlines() or [""]):
                shown = "" if place else name
                lines += broken([(f" {shown:>{label}}  ", Tone.DIM), (text, Tone.TEXT)], width - 1)
        self._content = lines
        self.resize_to(1 + len(lines))
        self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then a fact a line."""
        if y == 0:
            return strip_of(ruled(f" {self._title} ", " i all ─", width), width, self.ink)
        place = self.top + y - 1
        return strip_of(self._content[place] if place < len(self._content) else [], width, self.ink)
