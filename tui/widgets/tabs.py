"""Line 2: the panels by number. And the line that says which way one has come, when there is something to say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from textual import events
from textual.message import Message

from tui.looks.text import cells
from tui.looks.theme import Ground, Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Piece


class Tab(NamedTuple):
    """One title."""

    panel: str
    title: str


class Tabs(Bar):
    """Numbers and titles; the panel on top stands out by brackets as well as by colour."""

    class Chosen(Message):
        """A title was clicked."""

        def __init__(self, panel: str) -> None:
            super().__init__()
            self.panel = panel

    def __init__(self, panels: Sequence[Tab]) -> None:
        super().__init__(id="tabs", ground=Ground.BAR)
        self._panels = tuple(panels)
        self._spans: list[tuple[int, int, str]] = []
        self._told: tuple[str, int, int, tuple[str, ...]] = ("", 0, 0, ())

    def tell(self, top: str, findings: int, hidden: Collection[str] = ()) -> None:
        """Draw the titles, but not those that are hidden; findings are counted on their title."""
        told = (top, findings, self.size.width, tuple(hidden))
        if told == self._told:
            return
        self._told = told
        roomy = self.size.width >= 100
        pieces: list[Piece] = []
        used, self._spans = 0, []
        for number, (panel, name) in enumerate(self._panels, 1):
            if panel in hidden and panel != top:
                continue
            title = name + (f" {findings}" if panel == "findings" and findings and roomy else "")
            chosen = panel == top
            text = f"[{title}]" if chosen else f" {title} "
            start = used
            pieces += [(f" {number}" if roomy else str(number), Tone.ACCENT if chosen else Tone.DIM)]
            pieces += [(text, Tone.STRONG if chosen else Tone.TEXT)]
            used += (2 if roomy else 1) + cells(text)
            self._spans.append((start, used, panel))
        self.show(pieces)

    def on_click(self, event: events.Click) -> None:
        """Open the panel that was clicked."""
        for start, end, panel in self._spans:
            if start <= event.x < end:
                self.post_message(self.Chosen(panel))


class Crumbs(Bar):
    """The way here, from panel to panel, and the filter."""

    def __init__(self) -> None:
        super().__init__(id="crumbs")
        self._told: tuple[Sequence[str], str] = ((), "")

    def tell(self, trail: Sequence[str], query: str) -> None:
        """Show the way and the filter; the line goes away when there is neither."""
        if (trail, query) == self._told:
            return
        self._told = trail, query
        self.set_class(bool(trail or query), "-on")
        pieces: list[Piece] = []
        for place, step in enumerate(trail):
            pieces += [(" › " if place else " ", Tone.ACCENT), (step, Tone.INFO)]
        if query:
            pieces += [("  filter ", Tone.DIM), (query, Tone.INFO)]
        pieces += [("   Esc takes it away" if query else "   Esc goes back", Tone.DIM)]
        self.show(pieces)
