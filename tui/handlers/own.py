"""The incident report, kept answers, and reconnecting to lost nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.handlers.ask import ActionRefused, choose
from tui.looks.format import age, clock

if TYPE_CHECKING:
    from tui.app import HangtopApp


async def write_report(app: HangtopApp) -> None:
    """Write an incident report and show its path."""
    from tui.texts.report import Report

    first, *others = await asyncio.to_thread(Report(app.model).write, app.options.report_folder)
    app.say(f"written: {', '.join([first.name, *(path.suffix for path in others)])} in {first.parent}")


def open_results(app: HangtopApp) -> None:
    """List the answers of probes, flame graphs and recorder; Enter shows one again."""
    from tui.dialogs.base import TextDialog

    kept = list(app.results)[::-1]
    if not kept:
        raise ActionRefused("no result yet: answers of probes, flame graphs and recorder will be listed here")
    choices = [(title, f"{clock(at)}, {age(app.model.now - at)} ago") for at, title, _ in kept]
    choose(app, "Results", choices, lambda place: app.push_screen(TextDialog(*kept[place][1:])))


def try_again(app: HangtopApp) -> None:
    """Connect to the lost node under the cursor."""
    node = app.panel.selection().node
    if node is None or app.session.state.nodes[node].link != "lost":
        raise ActionRefused("no lost node under the cursor")
    app.session.retry(node)
    app.say(f"connects to {node}")
