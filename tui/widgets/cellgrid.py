"""How the nodes of the heat map lie on the screen."""

from __future__ import annotations

from typing import NamedTuple

FIGURE = 6
"""Cells of a figure's name where all figures are shown."""


class Grid(NamedTuple):
    """How nodes lie on the screen."""

    label: int
    """Cells of a node's name, glyph included."""
    rank: int
    """Cells of a rank's number; 0 where there is no room for any."""
    cell: int
    """Cells of number and value."""
    block: int
    """Cells of a whole node."""
    blocks: int
    """Nodes side by side."""
    nodes: int
    """Nodes below each other."""
    figures: int
    """Figures shown of each node; 1 is the chosen one."""

    @property
    def step(self) -> int:
        """Lines from one node to the one below it."""
        return 1 if self.figures == 1 else self.figures + 1
