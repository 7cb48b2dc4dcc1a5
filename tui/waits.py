"""The verdict's boxes of who waits for whom: by rank, and as the lines of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import ranks_text
from hangtop.diagnosis.verdict.wait_tree import chain_rows, row_text
from tui.looks.theme import Colour
from tui.widgets.lines import Piece

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST = 64
"""Boxes that the tree tells one by one."""


class WaitLookup:
    """The boxes by rank; made once a verdict, as of thousands of ranks each cell of the overview asks for its own."""

    def __init__(self, boxes: tuple[WaitBox, ...]) -> None:
        self.boxes = boxes
        self.place_of: Mapping[int, int] = {rank: place for place, box in enumerate(boxes) for rank in box.ranks}
        """Place of its box by rank."""
        self.blamed = frozenset(rank for box in boxes if box.blamed for rank in box.ranks)
        """Ranks of the boxes that the verdict blames."""

    def waits_for(self, rank: int) -> str:
        """For whom a rank waits, in words; empty where it waits for nobody, or nobody knows."""
        place = self.place_of.get(rank)
        others = () if place is None else self.boxes[place].waits_for
        return ", ".join(f"{letter_of(other)} {ranks_text(self.boxes[other].ranks)}" for other in others)


def letter_of(place: int) -> str:
    """Name of a box of the verdict by its place."""
    return LETTERS[place] if place < len(LETTERS) else "+"


def wait_tree(boxes: Sequence[WaitBox]) -> list[tuple[int, list[Piece]]]:
    """A line a box behind its place: who holds the others up first, below each who waits for it; at most 64."""
    boxes = [replace(box, nodes=(folded_names(box.nodes),) if box.nodes else ()) for box in boxes]
    waited = {other for box in boxes for other in box.waits_for}
    lines: list[tuple[int, list[Piece]]] = []
    for row in chain_rows(boxes, MOST):
        text = f"{letter_of(row.place)} {row_text(boxes, row, waited=row.place in waited)}"
        colour = Colour.BAD if boxes[row.place].blamed else Colour.TEXT
        lines.append((row.place, [(f" {row.head}", Colour.DIM), (text, colour)]))
    return lines
