"""A report, a shell, answers to be read again, and what is hangtop's own: help, colours, the end."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import outcome_words
from tui.alarm import LOUD
from tui.host import Host
from tui.looks.format import age, clock
from tui.looks.text import harmless
from tui.looks.theme import THEMES, Tone
from tui.order import Refused


async def write_report(app: Host) -> None:
    """Write an incident report and say where."""
    app.say(await _written(app))


async def _written(app: Host) -> str:
    from tui.texts.report import Report

    paths = await asyncio.to_thread(Report(app.scene).write, app.options.report_folder or Path.cwd())
    first, *others = paths
    return f"written: {', '.join([first.name, *(path.suffix for path in others)])} in {first.parent}"


def open_results(app: Host) -> None:
    """List the answers of probes, flame graphs, traces, lint and recorder; Enter shows one again."""
    from tui.dialogs.base import TextDialog
    from tui.dialogs.choosing import Choice, ChoiceDialog

    kept = list(app.results)[::-1]
    if not kept:
        raise Refused("no result yet: probes, flame graphs, traces, lint and recorder answers are kept here")

    def take(place: int | None) -> None:
        if place is not None:
            app.push_screen(TextDialog(kept[place][1], kept[place][2]))

    choices = [Choice(title, f"{clock(at, millis=False)}, {age(app.scene.now - at)} ago") for at, title, _ in kept]
    app.push_screen(ChoiceDialog("Results", choices), take)


def open_shell(app: Host) -> None:
    """Hand the terminal to ssh, or to the way of the session, until its shell ends."""
    from textual.app import SuspendNotSupported

    from tui.shell import shell_command, shown

    node = app.panel.node()
    if node is None:
        raise Refused("no node under the cursor")
    command, wrong = shell_command(node, app.session.options), ""
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
        raise Refused(f"this terminal cannot be handed over; run: {shown(command)}") from None
    if wrong:
        app.say(wrong, "error")
    app.tick()


def try_again(app: Host) -> None:
    """Connect to the lost node under the cursor, or to all that are marked."""
    lost = [name for name in app.panel.chosen_nodes() if app.session.state.nodes[name].link == "lost"]
    for name in lost:
        app.session.retry(name)
    app.say(f"connects to {nodes_text(lost)}" if lost else "no lost node under the cursor, or marked")


def suspend(app: Host) -> None:
    """Go behind the shell, as Ctrl-Z does elsewhere; ``fg`` there brings the screen back.

    Where whoever started hangtop is of the same process group, as a script that runs it, no shell would notice.
    """
    if app.is_headless or os.getpgid(os.getppid()) == os.getpgrp() or os.getsid(os.getppid()) != os.getsid(0):
        raise Refused("hangtop was not started by a shell that could bring it back")
    app.action_suspend_process()


def open_palette(app: Host) -> None:
    """Open the command palette."""
    app.open_palette()


def show_help(app: Host) -> None:
    """Show all keys."""
    app.open_help()


def next_theme(app: Host) -> None:
    """Change to the next of hangtop's own themes."""
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

    told = f"{outcome_words(verdict.outcome).upper()}  {verdict.summary}"
    goes_on = "The job is left as it is. x writes a report of all of it here first."
    app.push_screen(LeaveDialog("Leave hangtop?", [[(told, Tone.STRONG)], [], [(goes_on, Tone.TEXT)]]), take)


async def _report_and_leave(app: Host) -> None:
    from rich.text import Text

    # said on the terminal that is left: on the screen nobody would see it any more
    app.exit(message=Text(f"hangtop: {harmless(await _written(app))}", no_wrap=True, overflow="ignore"))
