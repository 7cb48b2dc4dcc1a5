"""A report, a shell, and what is hangtop's own: help, colours, the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import outcome_words
from tui.host import Host
from tui.looks.text import harmless
from tui.running.alarm import LOUD


async def write_report(app: Host) -> None:
    """Write an incident report and say where."""
    app.say(await _written(app))


async def _written(app: Host) -> str:
    """Write the report; returns where."""
    from tui.texts.report import Report

    paths = await asyncio.to_thread(Report(app.scene).write, app.options.report_folder or Path.cwd())
    first, *others = paths
    return f"written: {', '.join([first.name, *(path.suffix for path in others)])} in {first.parent}"


def open_shell(app: Host) -> None:
    """Hand the terminal to ssh, or to the way of the session, until its shell ends."""
    from textual.app import SuspendNotSupported

    from collectors.fleet.transport import TransportError
    from tui.shell import shell_command, shown

    node = app.panel.node()
    if node is None:
        app.say("no node under the cursor", "warning")
        return
    try:
        command = shell_command(node, app.session.options)
    except TransportError as error:
        app.say(str(error), "error")
        return
    wrong = ""
    try:
        with app.suspend():
            print(f"hangtop: {shown(command)}   (exit brings the screen back)", flush=True)  # noqa: T201 (on the bare terminal)
            # nothing may leave this block by an exception: Textual would not take the terminal back
            try:
                status = subprocess.call(command)
            except OSError as error:
                wrong = f"{command[0]} cannot be run here: {error.strerror}"
            else:
                wrong = f"{command[0]} could not reach {node}: {shown(command)}" if status == 255 else ""
    except SuspendNotSupported:
        app.say(f"this terminal cannot be handed over; run: {shown(command)}", "warning")
        return
    if wrong:
        app.say(wrong, "error")
    app.tick()


def try_again(app: Host) -> None:
    """Connect to the lost node under the cursor, or to all that are marked."""
    from collectors.fleet.transport import TransportError

    names = app.panel.chosen_nodes()
    lost = [name for name in names if app.session.state.nodes[name].link == "lost"]
    try:
        for name in lost:
            app.session.retry(name)
    except TransportError as error:
        app.say(str(error), "error")
    else:
        app.say(f"connects to {nodes_text(lost)}" if lost else "no lost node under the cursor, or marked")


def suspend(app: Host) -> None:
    """Go behind the shell, as Ctrl-Z does elsewhere; ``fg`` there brings the screen back.

    The whole process group is stopped, as the terminal would do it: a shell waits for whoever it started, which may
    have started hangtop. The terminal is given back before, for once the shell hears of the first that has stopped it
    takes it. Where no shell would continue it nothing is stopped.
    """
    from tui.running.terminal import shell_waits

    if app.is_headless or not shell_waits():
        app.say("hangtop was not started by a shell that could bring it back", "warning")
        return
    with app.suspend():
        os.kill(0, signal.SIGTSTP)
    app.tick()


def open_palette(app: Host) -> None:
    """Open the command palette."""
    app.open_palette()


def show_help(app: Host) -> None:
    """Show all keys."""
    app.open_help()


def next_theme(app: Host) -> None:
    """Change to the next of hangtop's own themes."""
    from tui.looks.theme import THEMES

    names = [theme.name for theme in THEMES]
    place = names.index(app.theme) if app.theme in names else -1
    app.theme = names[(place + 1) % len(names)]


def redraw(app: Host) -> None:
    """Draw the whole screen anew."""
    app.redraw_all()


def leave(app: Host) -> None:
    """End hangtop; while the alarm is loud and nodes are watched it asks once."""
    verdict = app.session.verdict
    if verdict is None or verdict.outcome not in LOUD or not app.session.can_act:
        app.exit()
        return
    from tui.dialogs.asking import LeaveDialog

    def take(answer: str | None) -> None:
        if answer == "report":
            app.run_worker(_report_and_leave(app), name="leave", exit_on_error=False)
        elif answer == "leave":
            app.exit()

    app.push_screen(LeaveDialog(f"{outcome_words(verdict.outcome).upper()}  {verdict.summary}"), take)


async def _report_and_leave(app: Host) -> None:
    from rich.text import Text

    # said on the terminal that is left: on the screen nobody would see it any more
    told = Text(f"hangtop: {harmless(await _written(app))}", no_wrap=True, overflow="ignore")
    app.exit(message=told)
