"""Going about: panels, cursor, in and back, filter, copies; and what keys change in one panel alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tui.handlers.ask import ActionRefused
from tui.looks.format import plural
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.app import HangtopApp
    from tui.panels.table_panel import TablePanel
    from tui.widgets.table import Table


def opens(name: str) -> Callable[[HangtopApp], object]:
    """Make the handler that opens a panel."""

    async def run(app: HangtopApp) -> None:
        await app.stage.open(name)
        app.tick()

    return run


def opens_beside(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that opens the panel to the right (1) or left (-1)."""

    async def run(app: HangtopApp) -> None:
        await app.stage.open(app.stage.beside(step))
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
    """Leave what was gone into within the panel, take the filter away, or go back."""
    if app.panel.leave() and not app.stage.trail:
        return
    if await app.stage.back():
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog
    from tui.panels.facts import facts_text

    if (details := app.panel.details()) is not None:
        title, facts = details
        app.push_screen(TextDialog(title, facts_text(facts)))


async def show_waits(app: HangtopApp) -> None:
    """Show who waits for whom, and put the cursor there; leave it again."""
    from tui.panels.overview import WAITS_PLACE, OverviewPanel

    panel = app.panel
    if isinstance(panel, OverviewPanel) and panel.leave_waits():
        return
    if not app.model.waits:
        verdict = app.session.verdict
        why = "no verdict yet" if verdict is None else f"the job is {verdict.outcome}"
        raise ActionRefused(f"nobody waits for anybody: {why}")
    if isinstance(panel, OverviewPanel):
        panel.show_waits()
    else:
        await app.go(Place("overview", "", (WAITS_PLACE, app.model.waits[0].ranks[0]), WAITS_PLACE))


async def ask_filter(app: HangtopApp) -> None:
    """Open the filter's line; where there is nothing to filter, say so."""
    from tui.panels.filterline import FilterLine

    if "filter" not in app.panel.can:
        raise ActionRefused(app.panel.WHY_NO_FILTER)
    await app.screen.query(FilterLine).remove()  # one that is just being left, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def copy(app: HangtopApp) -> None:
    """Copy what is looked at: the panel's own text, else the details of what is under the cursor."""
    text = app.panel.text()
    if not text and (details := app.panel.details()) is not None:
        title, facts = details
        text = "\n".join([title, *(f"{label}: {value}" if label else f"  {value}" for label, value in facts)])
    if not text:
        raise ActionRefused("nothing here to copy")
    app.copy_to_clipboard(text)
    app.say(f"{plural(text.count(chr(10)) + 1, 'line')} copied")
