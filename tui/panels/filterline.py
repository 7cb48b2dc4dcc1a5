"""The line for typing a filter, which takes effect while typing; errors are shown next to it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from tui.looks.text import harmless
from tui.ordering.filter import FilterError
from tui.panels.base import Panel


class FilterLine(Horizontal):
    """The filter line: Enter keeps the filter, Esc restores the previous one."""

    class Left(Message):
        """The line closed, and the filter is final."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "the filter before", priority=True)]

    def __init__(self, panel: Panel) -> None:
        super().__init__(id="filterline")
        self._panel = panel
        self._before = panel.query_text

    def compose(self) -> ComposeResult:
        """A slash, the input, and a hint."""
        yield Static(" / ", markup=False)
        yield Input(self._panel.query_text, select_on_focus=False, compact=True)
        yield Static("", id="hint", markup=False)

    def on_mount(self) -> None:
        """Focus the input."""
        self._hint("")
        self.query_one(Input).focus()

    def _hint(self, wrong: str) -> None:
        hint = f"  ✖ {wrong}" if wrong else f"  fields: {' '.join(sorted(self._panel.fields()))}"
        self.query_one("#hint", Static).update(harmless(hint))

    @on(Input.Changed)
    def filter(self, event: Input.Changed) -> None:
        """Filter while typing; an invalid filter changes nothing."""
        try:
            self._panel.set_filter(event.value)
        except FilterError as error:
            self._hint(str(error))
        else:
            self._hint("")

    @on(Input.Submitted)
    async def keep(self, event: Input.Submitted) -> None:
        """Keep the filter and close; stay open for an invalid filter."""
        if self._panel.query_text == event.value:
            await self._close()

    async def action_leave(self) -> None:
        """Restore the previous filter and close."""
        self._panel.set_filter(self._before)
        await self._close()

    async def _close(self) -> None:
        self._panel.main.focus()
        self._panel.post_message(self.Left())
        await self.remove()
