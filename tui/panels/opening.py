"""Where a box of the picture of waits leads to: a rank's stack, its group's collectives, or the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import folded, ranks_text
from tui.panels.base import Place
from tui.panels.findings import dumped
from tui.scene import Scene


def opened(boxes: Sequence[WaitBox], scene: Scene) -> Place | None:
    """Ranks that wait in an operation that a witness names lead to its group, others to a stack that was taken.

    Several boxes that were folded into one lead to their ranks; so do ranks of which nothing more is known.
    """
    ranks = sorted({rank for box in boxes for rank in box.ranks})
    if not ranks:
        return None
    what = ranks_text(ranks)
    if len(boxes) == 1:
        state = scene.state
        told = " " in boxes[0].operation  # with its number or its group: of a bare one frames alone tell
        if told and not boxes[0].blamed and (state.recorders or state.progress or state.ras):
            return Place("collectives", "", ranks[0], what)
        with_stack = dumped(scene)
        rank = next((rank for rank in ranks if rank in with_stack), None)
        if rank is not None:
            return Place("stacks", "", rank, what)
    return Place("ranks", f"rank={folded(ranks)}", ranks[0])
