"""Looks at stacks."""

from __future__ import annotations

from collections.abc import Callable

from tui.host import Host
from tui.looks.format import plural
from tui.order import Order, Refused, Say
from tui.panels.base import Place


def dump(*, everybody: bool = False) -> Callable[[Host], object]:
    """Make the handler that looks at the stacks of all ranks, or of the marked ones, or of the one at the cursor."""

    def run(app: Host) -> None:
        ranks = None if everybody else _chosen(app)
        living = _living(app)
        if not living or (ranks is not None and not ranks & living):
            raise Refused("no living rank to look at")
        number = len(living if ranks is None else ranks & living)
        app.notify(f"looking at {plural(number, 'rank')} …", markup=False, timeout=1.5)
        app.run_worker(_dumped(app, ranks, native=False), name="stacks", exit_on_error=False, exclusive=True)

    return run


async def native(app: Host) -> Order:
    """Look at the stacks of the chosen ranks with native frames."""
    from collectors.node.stacks.pyspy import dump_command
    from tui.shell import shown

    ranks = _chosen(app)
    rows = [row for row in app.scene.ranks if row.number in ranks and row.rank.gone_at is None]
    if not rows:
        raise Refused("no living rank to look at")
    where = f"{plural(len(ranks), 'rank')} on {plural(len({row.node.name for row in rows}), 'node')}"
    commands = [
        f"{row.node.name}: {shown(dump_command('py-spy', row.rank.process.pid, 'native', True))}" for row in rows
    ]

    async def work(_: Say) -> None:
        await _dumped(app, ranks, native=True)

    brief = f"{where}, native stacks, each paused for about 25 ms, half a second of CPU each"
    return Order("Dump native", brief, "\n".join(commands), work, quiet=True)


def _chosen(app: Host) -> set[int]:
    ranks = app.panel.chosen_ranks()
    if not ranks:
        raise Refused("no rank here: mark ranks, or press D for all")
    return ranks


def _living(app: Host) -> set[int]:
    return {row.number for row in app.scene.ranks if row.rank.gone_at is None}


async def _dumped(app: Host, ranks: set[int] | None, *, native: bool) -> None:
    await app.session.dump_stacks(ranks, native=native, samples=2)
    if len(app.screen_stack) == 1 and app.stage.top != "stacks":
        await app.go(Place("stacks", "", min(ranks) if ranks else None))
    app.tick()
