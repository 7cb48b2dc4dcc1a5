"""The verdict's boxes of who waits for whom: by rank, and as the lines of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hangtop.diagnosis.collectives.groups import WHOLE_NAME
from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count, of_several, ranks_text
from hangtop.diagnosis.verdict.wait_tree import BLAMED, ChainRow, chain_rows
from tui.looks.names import WHOLE, ShortNames

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST = 64
"""Boxes that are told one by one."""


class WaitLine(NamedTuple):
    """A box in the tree, each below the one that it waits for."""

    place: int
    """Among the verdict's boxes; -1 for the line that counts those that are left out."""
    parent: int
    """Place of the box that it stands below; -1 at the root."""
    head: str
    """Branches before its text, …"""
    on: str
    """… and before the lines in which that goes on."""
    text: str
    blamed: bool


class WaitLookup:
    """The boxes by rank; made once a verdict, as of thousands of ranks each cell of the overview asks for its own."""

    def __init__(self, boxes: tuple[WaitBox, ...]) -> None:
        self.boxes = boxes
        self.place_of: Mapping[int, int] = {rank: place for place, box in enumerate(boxes) for rank in box.ranks}
        """Place of its box by rank."""
        self.blamed = tuple(rank for box in boxes if box.blamed for rank in box.ranks)
        """Ranks of the boxes that the verdict blames."""
        self._blamed = frozenset(self.blamed)

    def blames(self, rank: int) -> bool:
        """True for a rank that the verdict blames."""
        return rank in self._blamed

    def waits_for(self, rank: int) -> str:
        """For whom a rank waits, in words; empty where it waits for nobody, or nobody knows."""
        place = self.place_of.get(rank)
        others = () if place is None else self.boxes[place].waits_for
        return ", ".join(f"{letter_of(other)} {ranks_text(self.boxes[other].ranks)}" for other in others)


def letter_of(place: int) -> str:
    """Name of a box of the verdict by its place."""
    return LETTERS[place] if place < len(LETTERS) else "+"


def wait_lines(boxes: Sequence[WaitBox], names: ShortNames = WHOLE) -> list[WaitLine]:
    """The boxes as a tree: who holds the others up first, below each who waits for it."""
    waited = {other for box in boxes for other in box.waits_for}
    rows = chain_rows(boxes, MOST)
    found = [
        WaitLine(row.place, row.parent, row.head, row.on, _text(boxes, row, names, waited), boxes[row.place].blamed)
        for row in rows
    ]
    left = len(boxes) - len(rows)
    return [*found, *([WaitLine(-1, -1, "", "", f"… and {count(left, 'more point')}", False)] if left else [])]


def _text(boxes: Sequence[WaitBox], row: ChainRow, names: ShortNames, waited: set[int]) -> str:
    """``B ranks 0-10,12-31 · node[1-4]: all_reduce #134 in dp at step (train.py:207), also for C``."""
    box = boxes[row.place]
    edges = dict(zip(box.waits_for, _labels(box), strict=False))
    label = edges.pop(row.parent, "")
    nodes = folded_names(names.all(box.nodes))
    doing = of_several(box.doing, len(box.ranks))
    if box.waits_for:  # that it waits, and in which operation, the branch and its label say
        doing = box.doing.removeprefix("waits in ")
        operation, at, line = doing.partition(" at ")
        doing = f"at {line}" if at and label.partition(" ")[0] == operation else doing
    also = "".join(
        f", also for {letter_of(other)}{f': {told}' if told and told != label else ''}" for other, told in edges.items()
    )
    what = " ".join(filter(None, (label, doing))) + also
    holds = f"  {BLAMED} holds the others up" if box.blamed and row.place in waited else ""
    who = f"{letter_of(row.place)} {ranks_text(box.ranks)}{f' · {nodes}' if nodes else ''}"
    return f"{who}: {what}{holds}" if what else f"{who}{holds}"


def _labels(box: WaitBox) -> list[str]:
    """What is said of each of its edges: collective and number, and the group where that is not the whole job."""
    told = box.operations or (box.operation,) * len(box.waits_for)
    return [label.removesuffix(f" in {WHOLE_NAME}") for label in told]
