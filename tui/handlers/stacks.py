"""Taking stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import count
from tui.handlers.ask import ActionRefused
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.app import HangtopApp


def dump(*, everybody: bool = False) -> Callable[[HangtopApp], object]:
    """Make the handler that takes the stacks of all ranks, or of those under the cursor."""

    def run(app: HangtopApp) -> None:
        ranks = None if everybody else _chosen(app)
        living = {row.number for row in app.model.ranks if row.rank.gone_at is None}
        if not living or (ranks is not None and not ranks & living):
            raise ActionRefused("no living rank here")
        number = len(living if ranks is None else ranks & living)
        app.notify(f"taking stacks of {count(number, 'rank')} …", markup=False, timeout=1.5)
        app.run_worker(_dumped(app, ranks), name="stacks", exit_on_error=False, exclusive=True)

    return run


def _chosen(app: HangtopApp) -> set[int]:
    ranks = app.panel.selection().ranks
    if not ranks:
        raise ActionRefused("no rank under the cursor: D takes the stacks of all")
    return set(ranks)


async def _dumped(app: HangtopApp, ranks: set[int] | None) -> None:
    await app.session.job_sources.stacks(ranks, samples=2)
    if len(app.screen_stack) == 1 and app.switcher.top != "stacks":
        await app.go(Place("stacks", "", min(ranks) if ranks else None))
    app.tick()
