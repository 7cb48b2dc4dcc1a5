"""Tables: filter, order, marks, columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tui.host import Host
from tui.looks.format import plural
from tui.order import Refused

if TYPE_CHECKING:
    from tui.panels.table_panel import TablePanel
    from tui.widgets.table import Table


async def ask_filter(app: Host) -> None:
    """Open the filter's line; where there is nothing to filter, say so."""
    from tui.panels.filterline import FilterLine

    if "filter" not in app.panel.can:
        raise Refused(app.panel.WHY_NO_FILTER)
    await app.screen.query(FilterLine).remove()  # one that is just being left, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def on_table(does: Callable[[Table[Any]], object]) -> Callable[[Host], object]:
    """Make the handler of what a table can do."""

    def run(app: Host) -> None:
        does(cast("TablePanel[Any]", app.panel).table)  # its key is alive there alone

    return run


def choose_columns(app: Host) -> None:
    """List the columns: show, hide, go to one, order by one."""
    from tui.dialogs.choosing import ColumnLine, ColumnsDialog

    table = cast("TablePanel[Any]", app.panel).table
    fixed, silent = table.view.fixed, table.view.silent
    lines = [
        ColumnLine(
            one.key, one.title or one.key, f"{'no value so far; ' if one.key in silent else ''}{one.help}",
            one.key in fixed,
        )
        for one in table.columns
    ]  # fmt: skip

    def take(chosen: tuple[str, bool] | None) -> None:
        if chosen is not None:
            (table.sort_by if chosen[1] else table.go_column)(chosen[0])
        app.tick()

    app.push_screen(ColumnsDialog(lines, table.view.hidden, table.hide_columns), take)


def mark(app: Host) -> None:
    """Mark what is under the cursor."""
    app.panel.mark()


def mark_all(app: Host) -> None:
    """Mark everything shown."""
    app.panel.mark_all()


def copy(app: Host) -> None:
    """Copy what is looked at: the panel's own text, else the details of what is under the cursor."""
    text = app.panel.text()
    if not text and (details := app.panel.details()) is not None:
        title, facts = details
        text = "\n".join([title, *(f"{label}: {value}" if label else f"  {value}" for label, value in facts)])
    if not text:
        raise Refused("nothing here to copy")
    app.copy_to_clipboard(text)
    app.say(f"{plural(text.count(chr(10)) + 1, 'line')} copied")


def copy_verdict(app: Host) -> None:
    """Copy the verdict in ten lines."""
    from tui.texts.verdict_text import in_ten_lines

    verdict = app.session.verdict
    if verdict is None:
        raise Refused("no verdict yet to copy")
    text = in_ten_lines(verdict, app.scene)
    app.copy_to_clipboard(text)
    app.say(f"the verdict was copied, {plural(text.count(chr(10)) + 1, 'line')}")
