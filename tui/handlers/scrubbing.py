"""Time: zoom, scrub, pause."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.looks.format import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.app import HangtopApp

COLUMNS = 60
"""Key presses from one end of the visible time to the other."""


def zooms(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that shows more (1) or less (-1) time."""

    def run(app: HangtopApp) -> None:
        app.model.timeline.zoom(step)
        app.tick()

    return run


def scrubs(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that steps forward (1) or back (-1) in time."""

    async def run(app: HangtopApp) -> None:
        timeline = app.model.timeline
        await show_moment(app, timeline.shown + step * max(1.0, timeline.span / COLUMNS))

    return run


async def toggle(app: HangtopApp) -> None:
    """Pause at this moment, or return to the newest."""
    timeline = app.model.timeline
    await show_moment(app, timeline.now if timeline.at is None else None)
    app.tick()


async def show_moment(app: HangtopApp, at: float | None) -> None:
    """Show the nearest known moment; None is the newest."""
    timeline, past = app.model.timeline, app.head.recordings.past
    if at is not None and at >= timeline.now:
        at = None if timeline.at is not None else timeline.now
    if at is None:
        timeline.at = None
        app.show_session(app.head)
    elif past is None:
        app.say(f"only the present can be shown: {app.head.recordings.fault or 'no past is kept'}", "warning")
    else:
        if at < past.first:
            app.say(f"nothing from before {clock(past.first)} is kept")
        timeline.at = max(at, past.first)
        app.tick()
        app.run_worker(_shown(app), name="moment", exit_on_error=False, exclusive=True, group="moment")


async def _shown(app: HangtopApp) -> None:
    """Play to the wanted moment and show it, unless another moment is wanted by then."""
    from hangtop.session.replay import SeekedSession

    timeline, head = app.model.timeline, app.head
    await asyncio.sleep(0)  # of several keys pressed at once only the last counts
    at, past = timeline.at, await head.recordings.opened()
    if at is None or past is None:
        return
    moment = await asyncio.to_thread(SeekedSession, head.options, past, at)
    if timeline.at == at:
        moment.show(head)
        app.show_session(moment)
