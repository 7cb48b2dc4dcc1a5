"""Navigation: panels, cursor, enter and back, filter, copy; and keys of single panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hangtop.diagnosis.phrasing import count
from tui.handlers.ask import ActionRefused
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.app import HangtopApp
    from tui.panels.table_panel import TablePanel
    from tui.widgets.table import Table


def opens(name: str) -> Callable[[HangtopApp], object]:
    """Make the handler that opens a panel by its name."""

    async def run(app: HangtopApp) -> None:
        await app.switcher.open(name)
        app.tick()

    return run


def in_panel(method: str, *args: Any) -> Callable[[HangtopApp], object]:
    """Make the handler that calls a method of the panel on top; a text that the method returns is shown.

    The method is given by name because a panel's module is imported only when the panel is first opened.
    """

    def run(app: HangtopApp) -> None:
        if isinstance(message := getattr(app.panel, method)(*args), str) and message:
            app.say(message)

    return run


def on_table(does: Callable[[Table[Any]], object]) -> Callable[[HangtopApp], object]:
    """Make the handler that calls ``does`` with the panel's table."""
    return lambda app: does(cast("TablePanel[Any]", app.panel).table)  # the key is bound only on tables


async def enter(app: HangtopApp) -> None:
    """Open the item under the cursor."""
    from tui.dialogs.base import TextDialog

    found = app.panel.enter()
    if isinstance(found, Place):
        await app.go(found)
    elif found is not None:
        await app.push_screen(TextDialog(*found))


async def back(app: HangtopApp) -> None:
    """Clear the filter, or go back."""
    if await app.switcher.back():
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show all details of the item under the cursor."""
    from tui.dialogs.base import TextDialog
    from tui.panels.facts import facts_text

    chosen = app.panel.selection()
    if chosen.facts:
        app.push_screen(TextDialog(chosen.title, facts_text(chosen.facts)))


async def ask_filter(app: HangtopApp) -> None:
    """Open the line to type a filter."""
    from tui.panels.filterline import FilterLine

    await app.screen.query(FilterLine).remove()  # a line that is just closing, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def copy(app: HangtopApp) -> None:
    """Copy the panel's own text for the selection, else the details of the selection."""
    chosen = app.panel.selection()
    facts = (f"{label}: {value}" if label else f"  {value}" for label, value in chosen.facts)
    text = chosen.text or "\n".join(filter(None, [chosen.title, *facts]))
    if not text:
        raise ActionRefused("nothing here to copy")
    app.copy_to_clipboard(text)
    app.say(f"{count(text.count(chr(10)) + 1, 'line')} copied")
