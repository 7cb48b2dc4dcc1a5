"""Tables: filter, order, marks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tui.host import Host
from tui.looks.format import plural

if TYPE_CHECKING:
    from tui.panels.table_panel import TablePanel


async def ask_filter(app: Host) -> None:
    """Open the filter's line; where there is nothing to filter, say so."""
    from tui.widgets.filterline import FilterLine

    if "filter" not in app.panel.can:
        app.say(app.panel.WHY_NO_FILTER, "warning")
        return
    for left in app.screen.query(FilterLine):  # one that is just being left, or was just opened
        await left.remove()
    line = FilterLine(app.panel, app.tick)  # where one is, the filter is named
    await app.screen.mount(line, before="#footer")
    line.focus()


def sort_next(app: Host) -> None:
    """Order by the next column."""
    cast("TablePanel[object]", app.panel).table.sort_next(1)


def sort_previous(app: Host) -> None:
    """Order by the column before."""
    cast("TablePanel[object]", app.panel).table.sort_next(-1)


def sort_turn(app: Host) -> None:
    """Turn the order round."""
    table = cast("TablePanel[object]", app.panel).table
    table.sort_by(table.sort_key or table.columns[0].key)


def choose_columns(app: Host) -> None:
    """List the columns: show, hide, go to one, order by one."""
    from tui.dialogs.columns import ChosenColumn, ColumnLine, ColumnsDialog

    table = cast("TablePanel[object]", app.panel).table
    fixed, silent = table.in_view.fixed, table.in_view.silent
    lines = [
        ColumnLine(one.key, one.title or one.key, one.help, one.key in fixed, one.key in silent)
        for one in table.columns
    ]

    def take(chosen: ChosenColumn | None) -> None:
        if chosen is not None and chosen.order:
            table.sort_by(chosen.key)
        elif chosen is not None:
            table.go_column(chosen.key)
        app.tick()

    app.push_screen(ColumnsDialog(lines, table.in_view.hidden, table.hide_columns), take)


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
    if text:
        app.copy_to_clipboard(text)
        app.say(f"{plural(text.count(chr(10)) + 1, 'line')} copied")
    else:
        app.say("nothing here to copy", "warning")


def copy_verdict(app: Host) -> None:
    """Copy the verdict in ten lines."""
    from tui.texts.verdict_text import in_ten_lines

    verdict = app.session.verdict
    if verdict is None:
        app.say("no verdict yet to copy", "warning")
        return
    text = in_ten_lines(verdict, app.scene)
    app.copy_to_clipboard(text)
    app.say(f"the verdict was copied, {plural(text.count(chr(10)) + 1, 'line')}")
