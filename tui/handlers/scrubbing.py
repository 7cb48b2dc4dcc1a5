"""Going about in time: zoom, scrub, marks, pause and play."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hangtop.session.state import beside
from tui.looks.format import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from hangtop.session.replay import ReplayFeed
    from tui.app import HangtopApp

AHEAD = 10.0
"""Recorded seconds that are played at once on the way to what happens next."""
COLUMNS = 60
"""Keys that it takes to go through all that is on view."""


def zooms(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that shows more (1) or less (-1) time."""

    def run(app: HangtopApp) -> None:
        app.model.timeline.zoom(step)
        app.tick()

    return run


def scrubs(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that goes forth (1) or back (-1) in time."""

    async def run(app: HangtopApp) -> None:
        timeline = app.model.timeline
        await show_moment(app, timeline.shown + step * max(1.0, timeline.span / COLUMNS))

    return run


def marks(step: int) -> Callable[[HangtopApp], object]:
    """Make the handler that goes to the next (1) or last (-1) thing that happened."""

    async def run(app: HangtopApp) -> None:
        timeline, player = app.model.timeline, app.head.player
        mark = beside(timeline.marks, timeline.shown, step)
        if mark is not None:
            await show_moment(app, mark.at)
        elif step < 0:
            app.say("nothing is known to have happened before")
        elif player is not None and not player.ended:
            search = _next_played(app, player)
            app.run_worker(search, name="moment", exit_on_error=False, exclusive=True, group="moment")
        else:
            app.say("nothing happened after this moment")

    return run


async def _next_played(app: HangtopApp, player: ReplayFeed) -> None:
    """Play on at once until something happens, and go there; somebody who goes elsewhere meanwhile is left there."""
    timeline = app.model.timeline
    at, begin = timeline.at, timeline.shown
    while not player.ended and timeline.at == at:
        await player.seek(timeline.now + AHEAD)
        await asyncio.sleep(0)  # a recording that has not begun yet does so meanwhile
        mark = beside(timeline.marks, begin, 1)
        if mark is not None:
            await show_moment(app, mark.at)
            return
        app.tick()
    if timeline.at == at:
        app.say("nothing happened after this moment")


async def toggle(app: HangtopApp) -> None:
    """Stand still at this moment, or go on from the newest one."""
    timeline, player = app.model.timeline, app.head.player
    if timeline.at is not None:
        await show_moment(app, None)
    elif player is None:
        await show_moment(app, timeline.now)
    else:
        player.paused = not player.paused
    app.tick()


async def live(app: HangtopApp) -> None:
    """To the newest moment."""
    await show_moment(app, None)


async def show_moment(app: HangtopApp, at: float | None) -> None:
    """Show this moment, as near to it as is known; None is the newest."""
    timeline, player, past = app.model.timeline, app.head.player, app.head.recordings.past
    if at is not None and at >= timeline.now:
        if player is not None and not player.ended:
            await player.seek(at)
        at = None if timeline.at is not None or player is not None else timeline.now
    if at is None:
        timeline.at = None
        app.show_session(app.head)
    elif past is None:
        app.say(f"only now can be shown: {app.head.recordings.no_past}", "warning")
    else:
        if at < past.first:
            app.say(f"nothing is kept of before {clock(past.first, millis=False)}")
        timeline.at = max(at, past.first)
        app.tick()
        app.run_worker(_shown(app), name="moment", exit_on_error=False, exclusive=True, group="moment")


async def _shown(app: HangtopApp) -> None:
    """Make the moment that is wanted; where another is wanted by then, that one."""
    from hangtop.session.replay import SeekedSession

    timeline, head = app.model.timeline, app.head
    await asyncio.sleep(0)  # of several keys at once only the last counts
    at, past = timeline.at, head.recordings.past
    if at is None or past is None:
        return
    moment = await asyncio.to_thread(SeekedSession, head.options, past.opened(), at)
    if timeline.at == at:
        moment.show(head)
        app.show_session(moment)
