"""Looks at stacks, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tui.host import Host
from tui.intent import Intent
from tui.looks.format import plural
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.panels.stacks import StacksPanel


def dump_chosen(app: Host) -> None:
    """Look at the stacks of the marked ranks."""
    _dump(app, app.panel.chosen_ranks(), native=False)


def dump_all(app: Host) -> None:
    """Look at the stacks of all ranks."""
    _dump(app, None, native=False)


def dump_native(app: Host) -> None:
    """Look at the stacks of the marked ranks with native frames."""
    _dump(app, app.panel.chosen_ranks(), native=True)


def native_intent(app: Host) -> Intent:
    """What a native dump does."""
    from tui.shell import native_commands

    ranks = app.panel.chosen_ranks()
    nodes = {row.node.name for row in app.scene.ranks if row.number in ranks and row.rank.gone_at is None}
    where = f"{plural(len(ranks), 'rank')} on {plural(len(nodes), 'node')}"
    brief = f"{where}, native stacks, each paused for about 25 ms, half a second of CPU each"
    return Intent(brief, native_commands(app.scene, ranks))


def next_sample(app: Host) -> None:
    """Show all looks at the stacks, then each alone."""
    cast("StacksPanel", app.panel).next_sample()


def toggle_tree(app: Host) -> None:
    """Show the stacks as a tree, or as groups again."""
    cast("StacksPanel", app.panel).toggle_tree()


def _dump(app: Host, ranks: set[int] | None, *, native: bool) -> None:
    if ranks is not None and not ranks:
        app.say("no rank here: mark ranks, or press D for all", "warning")
        return
    alive = {row.number for row in app.scene.ranks if row.rank.gone_at is None}
    wanted = alive if ranks is None else ranks & alive
    if not wanted:
        app.say("no living rank to look at", "warning")
        return
    app.notify(f"looking at {plural(len(wanted), 'rank')} …", markup=False, timeout=1.5)
    app.run_worker(_dumped(app, ranks, native=native), name="stacks", exit_on_error=False, exclusive=True)


async def _dumped(app: Host, ranks: set[int] | None, *, native: bool) -> None:
    await app.session.dump_stacks(ranks, native=native, samples=2)
    if len(app.screen_stack) == 1 and app.stage.top != "stacks":
        await app.go(Place("stacks", "", min(ranks) if ranks else None))
    app.tick()
