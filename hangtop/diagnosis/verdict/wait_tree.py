"""The boxes of a verdict as a tree of text, the ranks that hold the others up first.

This module imports no evidence behind the boxes, because the first frame of the screen needs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import folded_names, of_several, ranks_text
from hangtop.diagnosis.unnumbered import unnumbered

SHOWN = 12
"""Most boxes in a text."""
BLAMED = "◀ holds the others up"
"""End of the line of a blamed box."""


class TreeRow(NamedTuple):
    """A box in the tree of waits."""

    place: int
    """Index of the box among all boxes."""
    head: str
    """Indentation before the text, by depth in the tree."""
    text: str


def tree_rows(boxes: Sequence[WaitBox], most: int = SHOWN) -> list[TreeRow]:
    """The boxes as a tree, at most ``most``: the ranks that hold the others up first, their waiters below them."""
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
    """Ranks, nodes, activity and operation of a box; marked if the box is blamed and another box waits for it."""
    where = f" on {folded_names(box.nodes)}" if box.nodes and not unnumbered(box.ranks) else ""
    by = box.operation if f" in {box.operation} " not in box.doing else ""  # else already in the activity
    mark = f"   {BLAMED}" if box.blamed and waited else ""
    return f"{ranks_text(box.ranks)}{where}: {of_several(box.doing, len(box.ranks))}{f'   [{by}]' if by else ''}{mark}"
