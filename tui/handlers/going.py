"""Going about: panels, cursor, in and back, filter, copies; and what keys change in one panel alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hangtop.diagnosis.phrasing import count
from tui.handlers.ask import ActionRefused

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
    """Make the handler of what a panel does by itself; what it returns is said.

    By name: a panel's module is imported when the panel is first opened.
    """

    def run(app: HangtopApp) -> None:
        if isinstance(told := getattr(app.panel, method)(*args), str) and told:
            app.say(told)

    return run


def on_table(does: Callable[[Table[Any]], object]) -> Callable[[HangtopApp], object]:
    """Make the handler of what a table can do."""
    return lambda app: does(cast("TablePanel[Any]", app.panel).table)  # its key is alive there alone


async def enter(app: HangtopApp) -> None:
    """Go into what is under the cursor."""
    if (place := app.panel.enter()) is not None:
        await app.go(place)


async def back(app: HangtopApp) -> None:
    """Take the filter away, or go back."""
    if await app.switcher.back():
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog
    from tui.panels.facts import facts_text

    chosen = app.panel.selection()
    if chosen.facts:
        app.push_screen(TextDialog(chosen.title, facts_text(chosen.facts)))


async def ask_filter(app: HangtopApp) -> None:
    """Open the filter's line."""
    from tui.panels.filterline import FilterLine

    await app.screen.query(FilterLine).remove()  # one that is just being left, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def copy(app: HangtopApp) -> None:
    """Copy what is looked at: the panel's own text, else the details of what is under the cursor."""
    chosen = app.panel.selection()
    facts = (f"{label}: {value}" if label else f"  {value}" for label, value in chosen.facts)
    text = chosen.text or "\n".join(filter(None, [chosen.title, *facts]))
    if not text:
        raise ActionRefused("nothing here to copy")
    app.copy_to_clipboard(text)
    app.say(f"{count(text.count(chr(10)) + 1, 'line')} copied")
