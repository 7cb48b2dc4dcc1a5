"""A report, a shell, answers to be read again, and lost nodes to be tried again."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from typing import TYPE_CHECKING

from hangtop.session.live import shell_words
from tui.handlers.ask import ActionRefused
from tui.looks.format import age, clock

if TYPE_CHECKING:
    from tui.app import HangtopApp


async def write_report(app: HangtopApp) -> None:
    """Write an incident report and say where."""
    from tui.texts.report import Report

    first, *others = await asyncio.to_thread(Report(app.model).write, app.options.report_folder)
    app.say(f"written: {', '.join([first.name, *(path.suffix for path in others)])} in {first.parent}")


def open_results(app: HangtopApp) -> None:
    """List the answers of probes, flame graphs and recorder; Enter shows one again."""
    from tui.dialogs.asking import ChoiceDialog
    from tui.dialogs.base import TextDialog

    kept = list(app.results)[::-1]
    if not kept:
        raise ActionRefused("no result yet: answers of probes, flame graphs and recorder are kept here")

    def take(place: int | None) -> None:
        if place is not None:
            app.push_screen(TextDialog(kept[place][1], kept[place][2]))

    choices = [(title, f"{clock(at, millis=False)}, {age(app.model.now - at)} ago") for at, title, _ in kept]
    app.push_screen(ChoiceDialog("Results", choices), take)


def open_shell(app: HangtopApp) -> None:
    """Hand the terminal to ssh, or to the way of the session, until its shell ends."""
    from textual.app import SuspendNotSupported

    node = app.panel.selection().node
    if node is None:
        raise ActionRefused("no node under the cursor")
    command, wrong = shell_words(node, app.session.options), ""
    shown = shlex.join(command)
    try:
        with app.suspend():
            print(f"hangtop: {shown}   (exit brings the screen back)", flush=True)  # noqa: T201 (on the bare terminal)
            # nothing may leave this block by an exception: Textual would not take the terminal back
            try:
                status = subprocess.call(command)
            except OSError as error:
                wrong = f"{command[0]} cannot be run here: {error.strerror}"
            else:
                wrong = f"{command[0]} could not reach {node}: {shown}" if status == 255 else ""
    except SuspendNotSupported:
        raise ActionRefused(f"this terminal cannot be handed over; run: {shown}") from None
    if wrong:
        app.say(wrong, "error")
    app.tick()


def try_again(app: HangtopApp) -> None:
    """Connect to the lost node under the cursor."""
    node = app.panel.selection().node
    if node is None or app.session.state.nodes[node].link != "lost":
        raise ActionRefused("no lost node under the cursor")
    app.session.retry(node)
    app.say(f"connects to {node}")
