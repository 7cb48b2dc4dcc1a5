"""Line 2: the panels by number. And the line that says what one has gone into, when there is something to say."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tui.panels.registry import PANELS
from tui.text import cells
from tui.theme import Ground, Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Piece


class Tabs(Bar):
    """Numbers and titles; the panel on top stands out by brackets as well as by colour."""

    class Chosen(Message):
        """A title was clicked."""

        def __init__(self, panel: str) -> None:
            super().__init__()
            self.panel = panel

    def __init__(self) -> None:
        super().__init__(id="tabs", ground=Ground.BAR)
        self._spans: list[tuple[int, int, str]] = []
        self._told: tuple[str, int, int] = ("", 0, 0)

    def tell(self, top: str, findings: int) -> None:
        """Draw the titles; findings are counted on their title."""
        told = (top, findings, self.size.width)
        if told == self._told:
            return
        self._told = told
        roomy = self.size.width >= 100
        pieces: list[Piece] = []
        used, self._spans = 0, []
        for number, entry in enumerate(PANELS, 1):
            title = entry.title + (f" {findings}" if entry.name == "findings" and findings and roomy else "")
            chosen = entry.name == top
            text = f"[{title}]" if chosen else f" {title} "
            start = used
            pieces += [(f" {number}" if roomy else str(number), Tone.ACCENT if chosen else Tone.DIM)]
            pieces += [(text, Tone.STRONG if chosen else Tone.TEXT)]
            used += (2 if roomy else 1) + cells(text)
            self._spans.append((start, used, entry.name))
        self.show(pieces)

    def on_click(self, event: events.Click) -> None:
        """Open the panel that was clicked."""
        for start, end, panel in self._spans:
            if start <= event.x < end:
                self.post_message(self.Chosen(panel))


class Crumbs(Bar):
    """What the panel is narrowed down to: by going in, and by the filter."""

    def __init__(self) -> None:
        super().__init__(id="crumbs")
        self._told = ("", "")

    def tell(self, scope: str, query: str) -> None:
        """Show scope and filter; the line goes away when there is neither."""
        if (scope, query) == self._told:
            return
        self._told = scope, query
        self.set_class(bool(scope or query), "-on")
        pieces: list[Piece] = []
        if scope:
            pieces += [(" ‹ ", Tone.ACCENT), (scope, Tone.INFO)]
        if query:
            pieces += [("  filter ", Tone.DIM), (query, Tone.INFO)]
        pieces += [("   Esc takes it away", Tone.DIM)]
        self.show(pieces)
