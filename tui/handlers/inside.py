"""The key that asks the job for a check of its own: lists them with what they cost, shows what is written, and asks.

Where a process group is under the cursor, or ranks are that have groups, it asks first which ranks are meant.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from collectors.samples.page import OF_GROUP
from hangtop.diagnosis.phrasing import count, listed, ranks_text
from tui.handlers.confirming import confirmed
from tui.intent import Intent

if TYPE_CHECKING:
    from hangtop.session.asking.check_groups import CheckGroup
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


async def open_checks(app: Host) -> None:
    """List whom to ask, if there is a choice, and then the checks."""
    from tui.dialogs.choosing import Choice, ChoiceDialog

    first, groups = await _groups_here(app)
    if not groups:
        _list_checks(app, frozenset())
        return
    whom: list[tuple[Choice, frozenset[int]]] = [(Choice(ranks_text(g.ranks), g.told), g.ranks) for g in groups]
    whom.insert(0 if not first else 1, (Choice("all ranks of the job", "each check that a job can make"), frozenset()))

    def take(place: int | None) -> None:
        if place is not None:
            _list_checks(app, whom[place][1])

    app.push_screen(
        ChoiceDialog("Which ranks are to make a check", [choice for choice, _ in whom], does="list its checks"), take
    )


async def _groups_here(app: Host) -> tuple[bool, list[CheckGroup]]:
    """Whether the cursor is on a group, and the groups that may be meant: that one, or those of the ranks here."""
    from hangtop.session.asking.check_groups import CheckGroup, as_marked, groups_with

    session, panel = app.session, app.panel
    here, chosen = panel.chosen_group(), panel.chosen_ranks()
    if here is not None:
        name, ranks = here
        whole = ranks >= {row.number for row in app.scene.ranks}
        return True, [] if whole else [CheckGroup(ranks, f"group {name}, under the cursor")]
    job = session.pictured(session.sheet())
    opened = [row.rank.opened for row in app.scene.ranks if row.number in chosen]
    told = [line for facts in opened if facts is not None for line in facts.groups]
    found = await asyncio.to_thread(groups_with, job, chosen, told)
    marked = as_marked(job, chosen)
    if marked is not None and marked.ranks not in {group.ranks for group in found}:
        found.append(marked)
    return False, found


def _list_checks(app: Host, within: frozenset[int]) -> None:
    """List the checks that all ranks, or those of a group, can make."""
    from hangtop.session.asking.inside import COSTS, InsideRefused, plan, step_seconds
    from tui.dialogs.choosing import Choice, ChoiceDialog

    names = [name for name in COSTS if not within or name in OF_GROUP]

    def take(place: int | None) -> None:
        if place is None:
            return
        try:
            order = plan(app.session.job(), names[place], step_seconds(app.scene.nodes), within)
        except InsideRefused as refused:
            app.say(str(refused), "warning")
            return
        brief = f"{count(len(order.ranks), 'rank')}, {order.title()} at the end of step {order.at_step:,}"
        intent = Intent(brief, order.command())
        confirmed(app, TITLES[order.check], intent, order.cost(), lambda: _ask(app, order))

    whose = f"Checks that {ranks_text(within)} make" if within else "Checks that the job makes of itself"
    app.push_screen(ChoiceDialog(whose, [Choice(TITLES[name], COSTS[name]) for name in names], []), take)


async def _ask(app: Host, order: CheckOrder) -> None:
    from hangtop.session.asking.inside import InsideRefused, ask_ranks

    try:
        missed = await ask_ranks(app.session, order)
    except InsideRefused as refused:
        app.say(str(refused), "warning")
        return
    if missed:
        app.say(f"nobody makes {order.title()}: {listed(missed[:2])}", "warning")
    else:
        app.say(f"{count(len(order.ranks), 'rank')} asked for {order.title()} at step {order.at_step:,}")
