"""One or a few lines of pieces: totals above a table, the banner, tabs and footer."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from tui.looks.keys import key_of
from tui.looks.text import cells
from tui.looks.theme import Ground, Tone
from tui.widgets.lines import Lines, Piece, strip_of


class Bar(Lines):
    """Shows the pieces that it was given last; as high as its style says."""

    DEFAULT_CSS = """
    Bar { height: 1; scrollbar-size: 0 0; overflow: hidden; }
    """

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
        classes: str | None = None,
        ground: Ground = Ground.PLAIN,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.ground = ground
        self.over: Style | None = None
        """A style over everything: the ground of an alarm."""
        self._content: list[list[Piece]] = []

    def show(self, *lines: list[Piece]) -> None:
        """Take the lines and draw what differs."""
        content = list(lines)
        if content != self._content:
            self._content = content
            self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        pieces = self._content[y] if y < len(self._content) else []
        strip = strip_of(pieces, width, self.ink, self.ground)
        if self.over is None:
            return strip
        return Strip([Segment(text, (style or Style()) + self.over) for text, style, _ in strip], width)


class KeyBar(Bar):
    """Keys, each with what it does behind it; one that is clicked is one that is pressed."""

    def on_click(self, event: events.Click) -> None:
        """Press the key that stands there, or whose words do."""
        key, end = "", 0
        for text, tone in self._content[event.y] if event.y < len(self._content) else ():
            key, end = text.strip() if tone is Tone.ACCENT else key, end + cells(text)
            if event.x < end:
                if name := key_of(key):
                    self.app.simulate_key(name)
                return
