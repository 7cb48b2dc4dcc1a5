"""How nodes lie in the heat map: in blocks of figures, or a cell each."""

from __future__ import annotations

from typing import NamedTuple

from tui.looks.text import cells
from tui.view_model import ViewModel
from tui.widgets.metrics import WAITS, Metric, metrics_of

FIGURE = 6
"""Cells of a figure's name where all figures are shown."""
ACROSS = (10, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
"""Nodes side by side in the farther zoom: numbers that make the first name of a line easy to count on from."""
Room = tuple[int, int]
"""Cells and lines."""


class Grid(NamedTuple):
    """How nodes lie on the screen."""

    label: int
    """Cells of a node's name, sign included; in the farther zoom of a line's."""
    rank: int
    """Cells of a rank's number; 0 where there is no room for any."""
    cell: int
    """Cells of number and value."""
    block: int
    """Cells of a whole node."""
    across: int
    """Nodes side by side."""
    down: int
    """Nodes below each other."""
    figures: int
    """Figures of each node; 1 is the chosen one, 0 a digit a GPU."""

    @property
    def step(self) -> int:
        """Lines from one node to the one below it."""
        return max(1, self.figures + (self.figures > 1))

    @property
    def lines(self) -> int:
        """Lines that all nodes fill."""
        return max(1, self.down * self.step - (self.step > 1))


def far_grid(model: ViewModel, metric: Metric, room: Room) -> Grid:
    """A cell a node, in lines of a round number of nodes."""
    del metric
    number, label = len(model.nodes), _label(model, room[0])
    left = max(1, room[0] - label - 1)
    fitting = ((cell, across) for cell in (2, 1) for across in ACROSS
               if across * cell <= left and -(-number // across) <= room[1])  # fmt: skip
    cell, across = next(fitting, (1, left))
    return Grid(label, 0, cell, cell, across, max(1, -(-number // across)), 1)


def near_grid(model: ViewModel, metric: Metric, room: Room) -> Grid:
    """The blocks that tell most within the lines that there are, else the smallest."""
    nodes, label = model.nodes, _label(model, room[0])
    most = max((len(node.gpus) or len(node.ranks) for node in nodes), default=1) or 1
    rank = len(str(model.ranks[-1].number)) if model.ranks else 1
    every = metrics_of(model, nodes[0]) if nodes else (WAITS,)
    widest, chosen = max(each.digits for each in every), metric.digits
    found: list[Grid] = []
    for figures, number, digits in ((len(every), rank, widest), (1, rank, chosen), (1, 0, chosen), (0, 0, 1)):
        cell = number + (number > 0) + digits
        block = label + (FIGURE if figures > 1 else 0) + most * (cell + 1) + 1
        across = max(1, min((room[0] + 1) // block, len(nodes)))
        found.append(Grid(label, number, cell, block, across, max(1, -(-len(nodes) // across)), figures))
    return next((grid for grid in found if grid.block <= room[0] and grid.lines <= room[1]), found[-1])


def _label(model: ViewModel, width: int) -> int:
    longest = max((cells(model.names.of(node.name)) for node in model.nodes), default=4)
    return min(longest, 16 if width < 100 else 28) + 3
