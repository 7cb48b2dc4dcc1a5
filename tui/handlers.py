"""What the actions do. Each takes the application; ``tui.actions`` gives them keys, words and limits."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tui.format import plural
from tui.panels.base import Place
from tui.theme import Tone

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.app import HangtopApp
    from tui.panels.logs import LogsPanel
    from tui.panels.overview import OverviewPanel
    from tui.panels.stacks import StacksPanel
    from tui.panels.table_panel import TablePanel
    from tui.widgets.lines import Move


# --- going about -------------------------------------------------------------------------------------------------


def opens(name: str) -> Callable[[HangtopApp], object]:
    """Make the handler that opens a panel."""

    async def run(app: HangtopApp) -> None:
        await app.stage.open(name)
        app.tick()

    return run


async def open_next(app: HangtopApp) -> None:
    """Open the panel to the right."""
    await app.stage.open(app.stage.beside(1))
    app.tick()


async def open_previous(app: HangtopApp) -> None:
    """Open the panel to the left."""
    await app.stage.open(app.stage.beside(-1))
    app.tick()


def moves(how: Move) -> Callable[[HangtopApp], object]:
    """Make the handler of one way to move."""
    return lambda app: app.panel.move(how)


async def enter(app: HangtopApp) -> None:
    """Go into what is under the cursor."""
    place = app.panel.enter()
    if place is not None:
        await app.go(place)


async def back(app: HangtopApp) -> None:
    """Close the filter, take it away, or go back."""
    if await app.stage.back():
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog, facts_text

    details = app.panel.details()
    if details is not None:
        title, facts = details
        app.push_screen(TextDialog(title, facts_text(facts, min(140, app.size.width - 6))))


# --- tables ------------------------------------------------------------------------------------------------------


async def ask_filter(app: HangtopApp) -> None:
    """Open the filter's line."""
    from tui.widgets.filterline import FilterLine

    line = FilterLine(app.panel)
    await app.screen.mount(line, before="#footer")
    line.focus()


def sort_next(app: HangtopApp) -> None:
    """Order by the next column."""
    cast("TablePanel[object]", app.panel).table.sort_next(1)


def sort_previous(app: HangtopApp) -> None:
    """Order by the column before."""
    cast("TablePanel[object]", app.panel).table.sort_next(-1)


def sort_turn(app: HangtopApp) -> None:
    """Turn the order round."""
    table = cast("TablePanel[object]", app.panel).table
    table.sort_by(table.sort_key or table.columns[0].key)


def mark(app: HangtopApp) -> None:
    """Mark what is under the cursor."""
    app.panel.mark()


def mark_all(app: HangtopApp) -> None:
    """Mark everything shown."""
    app.panel.mark_all()


def copy(app: HangtopApp) -> None:
    """Copy the marked lines."""
    text = app.panel.text()
    if text:
        app.copy_to_clipboard(text)
        app.say(f"{plural(text.count(chr(10)) + 1, 'line')} copied")


# --- overview and logs -------------------------------------------------------------------------------------------


def metric_next(app: HangtopApp) -> None:
    """Show the next figure in the heat map."""
    cast("OverviewPanel", app.panel).next_metric(1)


def metric_previous(app: HangtopApp) -> None:
    """Show the figure before."""
    cast("OverviewPanel", app.panel).next_metric(-1)


def log_follow(app: HangtopApp) -> None:
    """Follow the log."""
    _logs(app).move("last")


def log_pause(app: HangtopApp) -> None:
    """Stand still, or follow again."""
    _logs(app).pause()


def log_severity(app: HangtopApp) -> None:
    """Show less, or all again."""
    _logs(app).next_severity()


def alarm_next(app: HangtopApp) -> None:
    """Go to the next warning or error."""
    if not _logs(app).go_alarm(1):
        app.say("no warning and no error after this line")


def alarm_previous(app: HangtopApp) -> None:
    """Go to the warning or error before."""
    if not _logs(app).go_alarm(-1):
        app.say("no warning and no error before this line")


def ask_time(app: HangtopApp) -> None:
    """Ask for a time and go there."""
    from tui.dialogs.asking import LineDialog

    logs = _logs(app)

    def take(text: str | None) -> None:
        if text is not None and (wrong := logs.go_time(text)):
            app.say(wrong, "warning")

    app.push_screen(LineDialog("Go to a time", [[("02:47, 02:47:10, or an age such as 5m", Tone.DIM)]]), take)


def _logs(app: HangtopApp) -> LogsPanel:
    return cast("LogsPanel", app.panel)


# --- the job -----------------------------------------------------------------------------------------------------


def dump_chosen(app: HangtopApp) -> None:
    """Look at the stacks of the marked ranks."""
    _dump(app, app.panel.chosen_ranks(), native=False)


def dump_all(app: HangtopApp) -> None:
    """Look at the stacks of all ranks."""
    _dump(app, None, native=False)


def dump_native(app: HangtopApp) -> None:
    """Look at the stacks of the marked ranks with native frames."""
    _dump(app, app.panel.chosen_ranks(), native=True)


def native_command(app: HangtopApp) -> str:
    """The exact commands of a native dump."""
    from tui.shell import native_commands

    return native_commands(app.scene, app.panel.chosen_ranks())


def next_sample(app: HangtopApp) -> None:
    """Show all looks at the stacks, then each alone."""
    cast("StacksPanel", app.panel).next_sample()


def toggle_tree(app: HangtopApp) -> None:
    """Show the stacks as a tree, or as groups again."""
    cast("StacksPanel", app.panel).toggle_tree()


def _dump(app: HangtopApp, ranks: set[int] | None, *, native: bool) -> None:
    if ranks is not None and not ranks:
        app.say("no rank here: mark ranks, or press D for all", "warning")
        return
    alive = {row.number for row in app.scene.ranks if row.rank.gone_at is None}
    wanted = alive if ranks is None else ranks & alive
    if not wanted:
        app.say("no living rank to look at", "warning")
        return
    app.notify(f"looking at {plural(len(wanted), 'rank')} …", markup=False, timeout=1.5)
    app.run_worker(_dumped(app, ranks, native=native), name="stacks", exit_on_error=False, exclusive=True)


async def _dumped(app: HangtopApp, ranks: set[int] | None, *, native: bool) -> None:
    await app.session.dump_stacks(ranks, native=native, samples=2)
    if len(app.screen_stack) == 1 and app.stage.top != "stacks":
        await app.go(Place("stacks", "", min(ranks) if ranks else None))
    app.tick()


async def write_report(app: HangtopApp) -> None:
    """Write an incident report and say where."""
    from tui.report import Report

    paths = await asyncio.to_thread(Report(app.scene).write, app.options.report_folder or Path.cwd())
    app.say("written: " + ", ".join(str(path) for path in paths))


def open_shell(app: HangtopApp) -> None:
    """Hand the terminal to ssh until its shell ends."""
    from textual.app import SuspendNotSupported

    from tui.shell import shell_command, shown

    node = app.panel.node()
    if node is None:
        app.say("no node under the cursor", "warning")
        return
    command = shell_command(node, app.session.options)
    try:
        with app.suspend():
            print(f"hangtop: {shown(command)}   (exit brings the screen back)", flush=True)  # noqa: T201 (on the bare terminal)
            status = subprocess.call(command)
    except SuspendNotSupported:
        app.say(f"this terminal cannot be handed over; run: {shown(command)}", "warning")
        return
    except OSError as error:
        app.say(f"{command[0]}: {error.strerror}", "error")
        return
    if status == 255:
        app.say(f"ssh could not reach {node}: {shown(command)}", "error")
    app.tick()


# --- hangtop itself ----------------------------------------------------------------------------------------------


def open_palette(app: HangtopApp) -> None:
    """Open the command palette."""
    from textual.command import CommandPalette

    from tui.palette import ActionsProvider

    app.push_screen(CommandPalette([ActionsProvider], placeholder="an action, a node, a theme …"))


def show_help(app: HangtopApp) -> None:
    """Show all keys."""
    from tui.dialogs.help import help_dialog

    fields = sorted(app.panel.fields())
    app.push_screen(help_dialog(app.options.keymap, app.stage.top, fields))


def next_theme(app: HangtopApp) -> None:
    """Change to the next of hangtop's own themes."""
    from tui.theme import THEMES

    names = [theme.name for theme in THEMES]
    place = names.index(app.theme) if app.theme in names else -1
    app.theme = names[(place + 1) % len(names)]


def redraw(app: HangtopApp) -> None:
    """Draw the whole screen anew."""
    app.redraw_all()


def leave(app: HangtopApp) -> None:
    """End hangtop."""
    app.exit()
