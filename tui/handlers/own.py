"""A report, a shell, answers to be read again, and what is hangtop's own: colours, the end."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.session.live import shell_words, ssh_words
from tui.handlers.ask import ActionRefused
from tui.looks.format import age, clock
from tui.looks.text import harmless
from tui.looks.theme import THEMES, Colour
from tui.terminal import ALARM

if TYPE_CHECKING:
    from hangtop.session.options import SessionOptions
    from tui.app import HangtopApp


async def write_report(app: HangtopApp) -> None:
    """Write an incident report and say where."""
    app.say(await _written(app))


async def _written(app: HangtopApp) -> str:
    from tui.texts.report import Report

    first, *others = await asyncio.to_thread(Report(app.model).write, app.options.report_folder or Path.cwd())
    return f"written: {', '.join([first.name, *(path.suffix for path in others)])} in {first.parent}"


def open_results(app: HangtopApp) -> None:
    """List the answers of probes, flame graphs, traces, lint and recorder; Enter shows one again."""
    from tui.dialogs.base import TextDialog
    from tui.dialogs.choosing import ChoiceDialog

    kept = list(app.results)[::-1]
    if not kept:
        raise ActionRefused("no result yet: probes, flame graphs, traces, lint and recorder answers are kept here")

    def take(place: int | None) -> None:
        if place is not None:
            app.push_screen(TextDialog(kept[place][1], kept[place][2]))

    choices = [(title, f"{clock(at, millis=False)}, {age(app.model.now - at)} ago") for at, title, _ in kept]
    app.push_screen(ChoiceDialog("Results", choices), take)


def open_shell(app: HangtopApp) -> None:
    """Hand the terminal to ssh, or to the way of the session, until its shell ends."""
    from textual.app import SuspendNotSupported

    node = app.panel.node()
    if node is None:
        raise ActionRefused("no node under the cursor")
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
        raise ActionRefused(f"this terminal cannot be handed over; run: {shown(command)}") from None
    if wrong:
        app.say(wrong, "error")
    app.tick()


def shell_command(node: str, options: SessionOptions) -> list[str]:
    """Argv of an interactive shell on a node, the way the session reaches it; this machine's own shell for itself."""
    if not options.targets and options.hostfile is None and options.slurm is None:
        return [os.environ.get("SHELL", "/bin/sh")]
    if (words := shell_words(node, options)) is not None:
        return words
    command = ssh_words(options)
    user, _, rest = node.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        command += ["-p", port]
    else:
        host = rest
    return [*command, "--", f"{user}@{host}" if user else host]


def shown(command: Sequence[str]) -> str:
    """The command as a shell would take it."""
    return shlex.join(command)


def try_again(app: HangtopApp) -> None:
    """Connect to the lost node under the cursor, or to all that are marked."""
    lost = [name for name in app.panel.chosen_nodes() if app.session.state.nodes[name].link == "lost"]
    for name in lost:
        app.session.retry(name)
    app.say(f"connects to {nodes_text(lost)}" if lost else "no lost node under the cursor, or marked")


def suspend(app: HangtopApp) -> None:
    """Go behind the shell, as Ctrl-Z does elsewhere; ``fg`` there brings the screen back.

    Where whoever started hangtop is of the same process group, as a script that runs it, no shell would notice.
    """
    if app.is_headless or os.getpgid(os.getppid()) == os.getpgrp() or os.getsid(os.getppid()) != os.getsid(0):
        raise ActionRefused("hangtop was not started by a shell that could bring it back")
    app.action_suspend_process()


def next_theme(app: HangtopApp) -> None:
    """Change to the next of hangtop's own themes."""
    names = [theme.name for theme in THEMES]
    place = names.index(app.theme) if app.theme in names else -1
    app.theme = names[(place + 1) % len(names)]


def leave(app: HangtopApp) -> None:
    """End hangtop; while the alarm is loud and nodes are watched it asks once."""
    verdict = app.session.verdict
    if verdict is None or verdict.outcome not in ALARM or not app.session.can_act:
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
    app.push_screen(LeaveDialog("Leave hangtop?", [[(told, Colour.STRONG)], [], [(goes_on, Colour.TEXT)]]), take)


async def _report_and_leave(app: HangtopApp) -> None:
    from rich.text import Text

    # said on the terminal that is left: on the screen nobody would see it any more
    app.exit(message=Text(f"hangtop: {harmless(await _written(app))}", no_wrap=True, overflow="ignore"))
