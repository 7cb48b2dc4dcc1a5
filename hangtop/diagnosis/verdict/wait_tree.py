"""Who waits for whom as text: the boxes of a verdict as a tree, the ranks that hold the others up first.

It needs the boxes alone, and nothing of what they were made of: the screen draws its first frame with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, listed, of_several, ranks_text
from hangtop.diagnosis.unnumbered import unnumbered

SHOWN = 12
"""Boxes in a text; the others are counted."""
BLAMED = "◀"
"""Ends the line of a box that holds others up."""


class ChainRow(NamedTuple):
    """A box in the tree of waits."""

    place: int
    """Among all boxes."""
    parent: int
    """Place of the box that it stands below, which it waits for; -1 at the root."""
    head: str
    """What stands before its text."""
    on: str
    """The same where the text goes on in a further line."""


def chain_rows(boxes: Sequence[WaitBox], most: int = SHOWN) -> list[ChainRow]:
    """The boxes as a tree, ``most`` at most: who holds the others up first, below each who waits for it."""
    behind: dict[int, list[int]] = {}
    for place, box in enumerate(boxes):
        for other in box.waits_for:
            behind.setdefault(other, []).append(place)
    roots = [place for place, box in enumerate(boxes) if not box.waits_for] or list(range(min(1, len(boxes))))
    known: set[int] = set()
    rows: list[ChainRow] = []

    def free(places: Sequence[int]) -> list[int]:
        """Those that have no place in the tree yet, which they get now."""
        taken = [place for place in places if place not in known][: most - len(known)]
        known.update(taken)
        return taken

    def grow(place: int, parent: int, head: str, on: str) -> None:
        below = free(behind.get(place, ()))
        rows.append(ChainRow(place, parent, head, on + ("│  " if below else "   ")))
        for other in below:
            last = other == below[-1]
            grow(other, place, on + ("└─ " if last else "├─ "), on + ("   " if last else "│  "))

    for root in free(sorted(roots, key=lambda place: (not boxes[place].blamed, place))):
        grow(root, -1, "", "")
    return rows


def chain_lines(boxes: Sequence[WaitBox]) -> list[str]:
    """The same as text, a line a box."""
    rows = chain_rows(boxes)
    waited = {other for box in boxes for other in box.waits_for}
    left = len(boxes) - len(rows)
    shown = [f"{row.head}{row_text(boxes, row, waited=row.place in waited)}" for row in rows]
    return [*shown, *([f"… and {count(left, 'more point')}"] if left else [])]


def row_text(boxes: Sequence[WaitBox], row: ChainRow, *, waited: bool) -> str:
    """Who is where, at what, in which collective, and for whom else; and whether that holds up who waits for it."""
    box = boxes[row.place]
    where = f" on {nodes_text(box.nodes)}" if box.nodes and not unnumbered(box.ranks) else ""
    operations = dict(zip(box.waits_for, box.operations, strict=False))
    operation = operations.get(row.parent) or box.operation
    by = f"   [{operation}]" if operation and f" in {operation} " not in box.doing else ""  # frames alone tell no more
    others = [ranks_text(boxes[other].ranks) for other in box.waits_for if other != row.parent] if row.head else []
    also = f"{',' if by else '  '} also for {listed(others, 3)}" if others else ""
    mark = f"   {BLAMED} holds the others up" if box.blamed and waited else ""
    return f"{ranks_text(box.ranks)}{where}: {of_several(box.doing, len(box.ranks))}{by}{also}{mark}"
