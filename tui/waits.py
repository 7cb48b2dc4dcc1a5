"""The verdict's boxes of who waits for whom, by rank."""

from __future__ import annotations

from collections.abc import Mapping

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import ranks_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


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
