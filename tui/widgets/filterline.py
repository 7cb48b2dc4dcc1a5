"""The line where a filter is typed: it takes effect while it is typed, and what is wrong is said beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from tui.looks.text import clip
from tui.looks.theme import Ground, Tone
from tui.ordering.filter import FilterError
from tui.widgets.bar import Bar


class Filtered(Protocol):
    """What is filtered: a panel."""

    query_text: str

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through. Raises :class:`~tui.ordering.filter.FilterError`."""

    def fields(self) -> list[str]:
        """Names that a filter can use here."""


class FilterLine(Horizontal):
    """Enter keeps the filter, Esc puts back the one before."""

    DEFAULT_CSS = """
    FilterLine { height: 1; background: $panel; }
    FilterLine #slash { width: 3; }
    FilterLine Input, FilterLine Input:focus { border: none; height: 1; padding: 0; background: $panel; width: 1fr; }
    FilterLine #hint { width: 2fr; }
    """

    def __init__(self, panel: Filtered, left: Callable[[], object] = lambda: None) -> None:
        """``left`` is called when it is gone."""
        super().__init__(id="filterline")
        self._left = left
        self._panel = panel
        self._before = panel.query_text
        self._input = Input(panel.query_text, select_on_focus=False)
        self._told = Bar(id="hint", ground=Ground.BAR)

    def compose(self) -> ComposeResult:
        """A slash, the input, a hint."""
        yield Bar(id="slash", ground=Ground.BAR)
        yield self._input
        yield self._told

    def on_mount(self) -> None:
        """Say what can be typed, and type."""
        self.query_one("#slash", Bar).show([(" / ", Tone.ACCENT)])
        self._hint("")
        self._input.focus()

    def _hint(self, wrong: str) -> None:
        if not self.is_attached:
            return  # the screen was resized, and the line left before it was drawn anew
        fields = " ".join(sorted(self._panel.fields()))
        told = f"  ✖ {wrong}" if wrong else f"  fields: {fields}" if fields else "  Enter keeps it, n and N go on"
        self._told.show([(clip(told, self._told.size.width or 80), Tone.BAD if wrong else Tone.DIM)])

    def on_resize(self) -> None:
        """Say it for the new width."""
        self.call_after_refresh(self._hint, "")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing; an error leaves what was shown."""
        event.stop()
        try:
            self._panel.set_filter(event.value)
        except FilterError as error:
            self._hint(str(error))
        else:
            self._hint("")

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter; one that is wrong stays to be mended."""
        event.stop()
        if self._panel.query_text == event.value:
            await self.remove()
            self._left()

    async def on_key(self, event: events.Key) -> None:
        """Esc puts the filter before back."""
        if event.key == "escape":
            event.stop()
            self._panel.set_filter(self._before)
            await self.remove()
            self._left()
