"""The picture of waits where columns have no room: a line a box, each below the one that it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import count, of_several
from hangtop.diagnosis.verdict.chain_text import BLAMED, ChainRow, chain_rows, row_text
from tui.looks.text import cells, fit, wrap
from tui.waits.canvas import DrawnPart, Patch, WaitPicture
from tui.waits.drawing import Drawing, DrawnBox
from tui.waits.levels import doing_of, labels_of, letter_of, nodes_within, one_box, ranks_within

MOST = 64
"""Boxes that are told one by one."""
BRANCH = "└─ "
"""What stands before a box for each that it is away from the first; of long chains not more than a third of a line."""
LEAST = 20
"""Cells of a text, however deep its box lies."""


def tree(boxes: Sequence[WaitBox], width: int, height: int) -> WaitPicture:
    """Draw the verdict's boxes as a tree of ``width`` cells.

    Each has a line at the least, also where those are more than ``height``; what is longer has more, as far as there is
    room, the first boxes before the others.
    """
    drawn: list[DrawnBox] = []
    rows: list[list[Patch]] = []
    waited = {other for box in boxes for other in box.waits_for}
    found = chain_rows(boxes, MOST)
    deepest = max(1, width // 3 // len(BRANCH)) * len(BRANCH)
    spare = max(0, height - len(found) - (len(found) < len(boxes)))
    for at, row in enumerate(found):
        box = boxes[row.place]
        letter = f"{letter_of(row.place)} "
        holds = f"  {BLAMED} holds the others up" if box.blamed and row.place in waited else ""
        text = _text(boxes, row, width) + holds
        head, on = row.head[-deepest:], row.on[-deepest - len(BRANCH) :]
        x = cells(head)
        texts = wrap(text, room := max(LEAST, width - cells(on)))
        if len(texts) > 1 + spare:
            texts = [*texts[:spare], fit(" ".join(texts[spare:]), room)]
        spare -= len(texts) - 1
        drawn.append(DrawnBox(one_box(boxes, row.place), x, len(rows), width - x, tuple(texts), bare=True))
        for number, part in enumerate(texts):
            lead = Patch(on if number else head, DrawnPart.ARROW, -1)
            name = Patch("" if number else letter, DrawnPart.BORDER, at)
            rows.append([lead, name, Patch(part, DrawnPart.TEXT, at)])
    left = len(boxes) - len(found)
    if left:
        rows.append([Patch(f"… and {left} more", DrawnPart.LABEL, -1)])
    return WaitPicture(Drawing(width, len(rows), tuple(drawn), ()), rows)


def sentences(boxes: Sequence[WaitBox], width: int) -> list[tuple[str, bool]]:
    """The tree as text with its lines broken, whole; with each line whether it is of a box that is blamed."""
    waited = {other for box in boxes for other in box.waits_for}
    rows = chain_rows(boxes)
    told: list[tuple[str, bool]] = []
    for row in rows:
        box = boxes[row.place]
        texts = wrap(row_text(boxes, row, waited=row.place in waited), max(LEAST, width - cells(row.on)))
        told += [(f"{row.on if number else row.head}{text}", box.blamed) for number, text in enumerate(texts)]
    left = len(boxes) - len(rows)
    return [*told, *([(f"… and {count(left, 'more point')}", False)] if left else [])]


def _text(boxes: Sequence[WaitBox], row: ChainRow, width: int) -> str:
    box = boxes[row.place]
    edges = dict(zip(box.waits_for, labels_of(box), strict=False))
    label = edges.pop(row.parent, "")
    nodes = nodes_within(box.nodes, width // 2)
    who = f"{ranks_within(box.ranks, width // 2)}{f' · {nodes}' if nodes else ''}"
    doing = doing_of(box.doing, [label]) if box.waits_for else of_several(box.doing, len(box.ranks))
    what = ", ".join(filter(None, (label, doing)))
    also = "".join(
        f", also for {letter_of(other)}{f': {told}' if told and told != label else ''}" for other, told in edges.items()
    )
    return f"{who}: {what}{also}" if what or also else who
