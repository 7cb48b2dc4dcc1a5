"""Where a box of who waits for whom leads to: a rank's stack, its group's collectives, or the ranks."""

from __future__ import annotations

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import folded, ranks_text
from tui.panels.base import Place
from tui.panels.findings import dumped
from tui.scene import Scene


def opened(box: WaitBox, scene: Scene) -> Place | None:
    """Ranks that wait in an operation that a source names lead to its group, others to a stack that was taken."""
    ranks = sorted(box.ranks)
    if not ranks:
        return None
    what, state = ranks_text(ranks), scene.state
    told = " " in box.operation  # with its number or its group: of a bare one frames alone tell
    if told and not box.blamed and (state.recorders or state.progress or state.ras):
        return Place("collectives", "", ranks[0], what)
    with_stack = dumped(scene)
    rank = next((rank for rank in ranks if rank in with_stack), None)
    if rank is not None:
        return Place("stacks", "", rank, what)
    return Place("ranks", f"rank={folded(ranks)}", ranks[0])
