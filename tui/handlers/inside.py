"""The key that asks the job for a check of its own: lists them with what they cost, shows what is written, and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import count
from tui.handlers.confirming import confirmed
from tui.intent import Intent

if TYPE_CHECKING:
    from hangtop.session.asking.inside import CheckOrder
    from tui.host import Host

TITLES = {
    "same": "Compare replicas bit by bit",
    "placement": "Compare where parameters lie",
    "mesh": "Check the device mesh",
    "barrier": "See whether all ranks come",
    "bandwidth": "Measure all-reduces from within",
    "stragglers": "Find ranks that compute slower",
}


def open_checks(app: Host) -> None:
    """List the checks."""
    from hangtop.session.asking.inside import COSTS, InsideRefused, plan, step_seconds
    from tui.dialogs.choosing import Choice, ChoiceDialog

    names = list(COSTS)

    def take(place: int | None) -> None:
        if place is None:
            return
        try:
            order = plan(app.session.job(), names[place], step_seconds(app.scene.nodes))
        except InsideRefused as refused:
            app.say(str(refused), "warning")
            return
        brief = f"{count(len(order.ranks), 'rank')}, check {order.check} at the end of step {order.at_step:,}"
        intent = Intent(brief, order.command())
        confirmed(app, TITLES[order.check], intent, order.cost(), lambda: _ask(app, order))

    choices = [Choice(TITLES[name], COSTS[name]) for name in names]
    app.push_screen(ChoiceDialog("checks that the job makes of itself", choices, []), take)


async def _ask(app: Host, order: CheckOrder) -> None:
    from hangtop.session.asking.inside import InsideRefused, ask_ranks

    try:
        missed = await ask_ranks(app.session, order)
    except InsideRefused as refused:
        app.say(str(refused), "warning")
        return
    asked = f"{count(len(order.ranks) - len(missed), 'rank')} asked for check {order.check} at step {order.at_step:,}"
    app.say(asked + (f"; not asked: {missed[0]}" if missed else ""), "warning" if missed else "information")
