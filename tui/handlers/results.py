"""Answers that were shown before: a list, and each of them again."""

from __future__ import annotations

from tui.host import Host
from tui.looks.format import age, clock


def open_results(app: Host) -> None:
    """List the answers of probes, flame graphs, traces, lint and recorder; Enter shows one again."""
    from tui.dialogs.base import TextDialog
    from tui.dialogs.choosing import Choice, ChoiceDialog

    kept = app.results.newest_first()
    if not kept:
        app.say("no result yet: probes, flame graphs, traces, lint and recorder answers are kept here")
        return
    choices = [Choice(one.title, f"{clock(one.at, millis=False)}, {age(app.scene.now - one.at)} ago") for one in kept]

    def take(place: int | None) -> None:
        if place is not None:
            app.push_screen(TextDialog(kept[place].title, kept[place].content))

    app.push_screen(ChoiceDialog("Results", choices, does="read it again"), take)
