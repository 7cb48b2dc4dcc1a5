"""The verdict's boxes by rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hangtop.diagnosis.finding import WaitBox
from tui.waits.levels import levels_of


class WaitLookup:
    """Made once a verdict: of thousands of ranks each cell of the overview asks for its own."""

    def __init__(self, boxes: tuple[WaitBox, ...]) -> None:
        self.boxes = boxes
        self.place_of: Mapping[int, int] = {rank: place for place, box in enumerate(boxes) for rank in box.ranks}
        """Place of its box by rank."""
        self.blamed = tuple(rank for box in boxes if box.blamed for rank in box.ranks)
        """Ranks of the boxes that the verdict blames."""
        self._blamed = frozenset(self.blamed)
        self.tallest = max(Counter(levels_of(boxes)).values(), default=0)
        """Boxes of the picture of waits that stand above each other, where it has room for all."""

    def blames(self, rank: int) -> bool:
        """True for a rank that the verdict blames."""
        return rank in self._blamed
