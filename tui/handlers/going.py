"""Going about: panels, cursor, in and back; and what keys change in one panel alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tui.handlers.ask import ActionRefused
from tui.handlers.scrubbing import show_moment
from tui.looks.theme import Colour
from tui.panels.base import Place
from tui.widgets.lines import Move

if TYPE_CHECKING:
    from tui.app import HangtopApp
    from tui.panels.logs import LogsPanel


def opens(name: str) -> Callable[[HangtopApp], object]:
    """Make the handler that opens a panel."""

    async def run(app: HangtopApp) -> None:
        await app.stage.open(name)
        app.tick()

    return run


def opens_beside(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that opens the panel to the right (1) or left (-1)."""

    async def run(app: HangtopApp) -> None:
        await app.stage.open(app.stage.beside(step))
        app.tick()

    return run


def moves(how: Move) -> Callable[[HangtopApp], object]:
    """Make the handler of one way to move."""
    return lambda app: app.panel.move(how)


def in_panel(method: str, *args: Any) -> Callable[[HangtopApp], object]:
    """Make the handler of what one panel alone can do, and on which alone its key is alive; what it returns is said.

    By name: a panel's module is imported when the panel is first opened.
    """

    def run(app: HangtopApp) -> None:
        if isinstance(told := getattr(app.panel, method)(*args), str) and told:
            app.say(told)

    return run


async def enter(app: HangtopApp) -> None:
    """Go into what is under the cursor."""
    place = app.panel.enter()
    if place is None:
        return
    await app.go(place)
    if place.at is not None and not await show_moment(app, place.at):
        await app.stage.back()


async def back(app: HangtopApp) -> None:
    """Leave what was gone into within the panel, take the filter away, or go back."""
    if app.panel.leave() and not app.stage.trail:
        return
    moment = app.stage.moment_before
    if await app.stage.back():
        if moment is not None:
            await show_moment(app, moment.at)
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog
    from tui.panels.base import facts_text

    if (details := app.panel.details()) is not None:
        title, facts = details
        app.push_screen(TextDialog(title, facts_text(facts)))


async def show_waits(app: HangtopApp) -> None:
    """Show who waits for whom, and put the cursor there; leave it again."""
    from tui.panels.overview import WAITS_PLACE, OverviewPanel

    panel = app.panel
    if isinstance(panel, OverviewPanel) and panel.leave_waits():
        return
    if not app.model.waits:
        verdict = app.session.verdict
        raise ActionRefused(
            f"nobody waits for anybody: {'no verdict yet' if verdict is None else f'the job is {verdict.outcome}'}"
        )
    if isinstance(panel, OverviewPanel):
        panel.show_waits()
    else:
        await app.go(Place("overview", "", (WAITS_PLACE, app.model.waits[0].ranks[0]), WAITS_PLACE))


def next_alarm(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that goes to the next (1) or last (-1) warning or error of the log."""

    def run(app: HangtopApp) -> None:
        if cast("LogsPanel", app.panel).go_alarm(step):
            return
        hint = " after this line; N goes back to the one before" if step > 0 else " before this line"
        app.say(f"no warning and no error{hint}")

    return run


def ask_time(app: HangtopApp) -> None:
    """Ask for a time and go there in the log."""
    from tui.dialogs.asking import LineDialog

    logs = cast("LogsPanel", app.panel)

    def take(text: str | None) -> None:
        if text is not None and (wrong := logs.go_time(text)):
            app.say(wrong, "warning")

    app.push_screen(LineDialog("Go to a time", [[("02:47, 02:47:10, or an age such as 5m", Colour.DIM)]]), take)


metric_next, metric_previous = in_panel("next_metric", 1), in_panel("next_metric", -1)
closer, farther = in_panel("next_view", -1), in_panel("next_view", 1)
show_happened = in_panel("show_happened")
log_follow, log_pause, log_severity = in_panel("move", "last"), in_panel("pause"), in_panel("next_severity")
log_fold = in_panel("fold")
