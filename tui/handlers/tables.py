"""Tables: filter, order, marks, columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tui.handlers.ask import ActionRefused
from tui.looks.format import plural
from tui.texts.findings import verdict_text

if TYPE_CHECKING:
    from tui.app import HangtopApp
    from tui.panels.table_panel import TablePanel
    from tui.widgets.table import Table


async def ask_filter(app: HangtopApp) -> None:
    """Open the filter's line; where there is nothing to filter, say so."""
    from tui.panels.filterline import FilterLine

    if "filter" not in app.panel.can:
        raise ActionRefused(app.panel.WHY_NO_FILTER)
    await app.screen.query(FilterLine).remove()  # one that is just being left, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def on_table(does: Callable[[Table[Any]], object]) -> Callable[[HangtopApp], object]:
    """Make the handler of what a table can do."""

    def run(app: HangtopApp) -> None:
        does(cast("TablePanel[Any]", app.panel).table)  # its key is alive there alone

    return run


def choose_columns(app: HangtopApp) -> None:
    """List the columns: show, hide, go to one, order by one."""
    from tui.dialogs.choosing import ColumnsDialog

    table = cast("TablePanel[Any]", app.panel).table

    def take(chosen: tuple[str, bool] | None) -> None:
        if chosen is not None:
            (table.sort_by if chosen[1] else table.go_column)(chosen[0])
        app.tick()

    app.push_screen(ColumnsDialog(table.view, table.hide_columns), take)


def mark(app: HangtopApp) -> None:
    """Mark what is under the cursor."""
    app.panel.mark()


def mark_all(app: HangtopApp) -> None:
    """Mark everything shown."""
    app.panel.mark_all()


def copy(app: HangtopApp) -> None:
    """Copy what is looked at: the panel's own text, else the details of what is under the cursor."""
    text = app.panel.text()
    if not text and (details := app.panel.details()) is not None:
        title, facts = details
        text = "\n".join([title, *(f"{label}: {value}" if label else f"  {value}" for label, value in facts)])
    if not text:
        raise ActionRefused("nothing here to copy")
    _copy(app, text)


def copy_verdict(app: HangtopApp) -> None:
    """Copy the verdict: what, since when, the first finding with its proof."""
    verdict = app.session.verdict
    if verdict is None:
        raise ActionRefused("no verdict yet to copy")
    _copy(app, verdict_text(verdict, app.model))


def _copy(app: HangtopApp, text: str) -> None:
    app.copy_to_clipboard(text)
    app.say(f"{plural(text.count(chr(10)) + 1, 'line')} copied")
