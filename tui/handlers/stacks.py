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
        living = {row.number for row in app.model.ranks if row.rank.gone_at is None}
        ranks = living if everybody else living & app.panel.selection().ranks
        if not ranks:
            raise ActionRefused("no living rank" if everybody else "no living rank here: D takes the stacks of all")
        app.notify(f"taking stacks of {count(len(ranks), 'rank')} …", markup=False, timeout=1.5)
        taking = _dumped(app, None if everybody else ranks)
        app.run_worker(taking, name="stacks", exit_on_error=False, exclusive=True)

    return run


async def _dumped(app: HangtopApp, ranks: set[int] | None) -> None:
    await app.session.job_sources.stacks(ranks, samples=2)
    if len(app.screen_stack) == 1 and app.switcher.top != "stacks":
        await app.go(Place("stacks", "", min(ranks) if ranks else None))
    app.tick()
