"""Tabs, breadcrumbs and footer around the panels."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Tab, Tabs

from tui.looks.theme import Colour
from tui.panels.registry import PANELS
from tui.widgets.lines import Bar, Piece

WIDE = 100
"""Screen width in cells from which tabs have gaps, and the tab of findings shows their number."""


class PanelTabs(Tabs):
    """Numbers and titles of the panels; brackets and colour mark the panel on top."""

    can_focus = False

    def __init__(self, first: str) -> None:
        super().__init__(*(Tab(Content(entry.title), id=entry.name) for entry in PANELS), id="tabs", active=first)
        self._drawn: tuple[object, ...] = ()

    def tell(self, top: str, findings: int) -> None:
        """Show which panel is on top, and the number of findings."""
        wide = self.app.size.width >= WIDE
        drawn = (top, findings, wide)
        if drawn == self._drawn or not self.is_mounted:
            return
        self._drawn = drawn
        with self.prevent(Tabs.TabActivated):
            self.active = top
        for number, entry in enumerate(PANELS, 1):
            title = entry.title + (f" {findings}" if entry.name == "findings" and findings and wide else "")
            shown = f"[{title}]" if entry.name == top else f" {title} "
            self.query_one(f"#{entry.name}", Tab).label = Content(f"{' ' if wide else ''}{number}{shown}")


class Crumbs(Bar):
    """The visited panels and the filter; hidden without both."""

    def tell(self, trail: Sequence[str], query: str) -> None:
        """Show the visited panels and the filter."""
        self.display = bool(trail or query)
        pieces: list[Piece] = []
        for place, step in enumerate(trail):
            pieces += [(" › " if place else " ", Colour.ACCENT), (step, Colour.INFO)]
        if query:
            pieces += [("  filter ", Colour.DIM), (query, Colour.INFO)]
        self.show([*pieces, ("   Esc clears it" if query else "   Esc goes back", Colour.DIM)])


class KeyFooter(Footer):
    """The keys that are useful on this panel."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True, id="footer")
        self.unable: Collection[str] = ()
        """Bindings of actions that would only be refused: the footer omits them."""
        self._bound: list[tuple[str, bool]] = []

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Rebuild the footer only if its keys changed; Textual calls this at every change of focus."""
        found = ((binding.action, able) for _, binding, able, _ in screen.active_bindings.values() if binding.show)
        bound = [(action, able) for action, able in found if action not in self.unable]
        if bound != self._bound:
            self._bound = bound if screen.app.app_focus else []
            super().bindings_changed(screen)

    def compose(self) -> ComposeResult:
        """The keys, without those in :attr:`unable`."""
        yield from (key for key in super().compose() if getattr(key, "action", "") not in self.unable)
