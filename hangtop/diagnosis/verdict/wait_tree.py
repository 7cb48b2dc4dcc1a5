"""Who waits for whom as text: the boxes of a verdict as a tree, the ranks that hold the others up first.

It needs the boxes alone, and nothing of what they were made of: the screen draws its first frame with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import folded_names, of_several, ranks_text
from hangtop.diagnosis.unnumbered import unnumbered

SHOWN = 12
"""Boxes in a text."""
BLAMED = "◀ holds the others up"
"""Ends the line of a box that is blamed."""


class TreeRow(NamedTuple):
    """A box in the tree of waits."""

    place: int
    """Among all boxes."""
    head: str
    """Stands before its text: how deep in the tree it is."""
    text: str


def tree_rows(boxes: Sequence[WaitBox], most: int = SHOWN) -> list[TreeRow]:
    """The boxes as a tree, ``most`` at most: who holds the others up first, below each who waits for it."""
    behind: dict[int, list[int]] = defaultdict(list)
    for place, box in enumerate(boxes):
        for other in box.waits_for:
            behind[other].append(place)
    roots = [place for place, box in enumerate(boxes) if not box.waits_for] or list(range(min(1, len(boxes))))
    todo = [(place, 0) for place in sorted(roots, key=lambda place: (not boxes[place].blamed, place), reverse=True)]
    rows: dict[int, TreeRow] = {}
    while todo and len(rows) < most:
        place, depth = todo.pop()
        if place not in rows:
            head = "   " * (depth - 1) + "└─ " if depth else ""
            rows[place] = TreeRow(place, head, _text(boxes[place], waited=place in behind))
            todo += [(other, depth + 1) for other in reversed(behind.get(place, ()))]
    return list(rows.values())


def _text(box: WaitBox, *, waited: bool) -> str:
    """Who is where, at what, in which collective; and whether that holds up who waits for it."""
    where = f" on {folded_names(box.nodes)}" if box.nodes and not unnumbered(box.ranks) else ""
    by = box.operation if f" in {box.operation} " not in box.doing else ""  # frames alone tell no more
    mark = f"   {BLAMED}" if box.blamed and waited else ""
    return f"{ranks_text(box.ranks)}{where}: {of_several(box.doing, len(box.ranks))}{f'   [{by}]' if by else ''}{mark}"
