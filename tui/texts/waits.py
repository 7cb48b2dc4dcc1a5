"""Who waits for whom as the items of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.verdict.wait_tree import chain_rows, row_text
from tui.looks.theme import Colour
from tui.waits import letter_of
from tui.widgets.itemlist import Item

MOST = 64
"""Boxes that are told one by one."""


def wait_items(boxes: Sequence[WaitBox], most: int = 1 << 10) -> list[Item]:
    """The boxes as a tree, by their places: who holds the others up first, below each who waits for it.

    Of long chains only the last ``most`` cells of the branches are seen.
    """
    boxes = [replace(box, nodes=(folded_names(box.nodes),) if box.nodes else ()) for box in boxes]
    waited = {other for box in boxes for other in box.waits_for}
    rows = chain_rows(boxes, MOST)
    items = []
    for row in rows:
        box = boxes[row.place]
        text = f"{letter_of(row.place)} {row_text(boxes, row, waited=row.place in waited)}"
        line = [(row.head[-most:], Colour.DIM), (text, Colour.BAD if box.blamed else Colour.TEXT)]
        items.append(Item((line,), frozenset(box.ranks), row.place, below=row.on[-most:]))
    if left := len(boxes) - len(rows):
        items.append(Item(([(f"… and {count(left, 'more point')}", Colour.TEXT)],), key=-1))
    return items
