"""Going about: panels, cursor, in and back."""

from __future__ import annotations

from collections.abc import Callable

from tui.handlers.scrubbing import show_moment
from tui.host import Host
from tui.widgets.lines import Move


def opens(name: str) -> Callable[[Host], object]:
    """Make the handler that opens a panel."""

    async def run(app: Host) -> None:
        await app.stage.open(name)
        app.tick()

    return run


async def open_next(app: Host) -> None:
    """Open the panel to the right."""
    await app.stage.open(app.stage.beside(1))
    app.tick()


async def open_previous(app: Host) -> None:
    """Open the panel to the left."""
    await app.stage.open(app.stage.beside(-1))
    app.tick()


def moves(how: Move) -> Callable[[Host], object]:
    """Make the handler of one way to move."""
    return lambda app: app.panel.move(how)


async def enter(app: Host) -> None:
    """Go into what is under the cursor."""
    place = app.panel.enter()
    if place is None:
        return
    await app.go(place)
    if place.at is not None and not await show_moment(app, place.at):
        await app.stage.back()


async def back(app: Host) -> None:
    """Leave what was gone into within the panel, take the filter away, or go back."""
    if app.panel.leave() and not app.stage.trail:
        return
    moment = app.stage.moment_before
    if await app.stage.back():
        if moment is not None:
            await show_moment(app, moment.at)
        app.tick()


def show_details(app: Host) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog, facts_text

    details = app.panel.details()
    if details is not None:
        title, facts = details
        app.push_screen(TextDialog(title, facts_text(facts)))
