"""The verdict's boxes by rank."""

from __future__ import annotations

from collections.abc import Mapping

from hangtop.diagnosis.finding import WaitBox


class WaitLookup:
    """Made once a verdict: of thousands of ranks each cell of the overview asks for its own."""

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
