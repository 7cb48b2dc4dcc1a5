"""Nodes × GPUs as one grid: rank and value in every cell, with the background as heat.

A node has a block of cells. By the room that there is, a cell shows rank and value, the value, or a digit in tenths of
the maximum. In a job of many nodes, each node has one cell.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from hangtop.diagnosis.node import Node
from tui.looks.format import age
from tui.looks.signs import link_sign
from tui.looks.text import cells, clip, fit
from tui.looks.theme import Background, Colour
from tui.measure import source_is_stale
from tui.view_model import ViewModel
from tui.widgets.lines import Lines, Move, step_of, strip_of
from tui.widgets.metrics import OF_GPUS, Cell, Metric, cell_of, cells_of, metrics_of

MANY = 128
"""Number of nodes beyond which a node has one cell."""
ACROSS = (200, 160, 128, 100, 80, 64, 50, 40, 32, 25, 20, 16, 10)
"""Numbers of one-cell nodes per line that make it easy to count from the first name of a line."""
UNSEEN = 4
"""Cells of a node without a known GPU or rank, for the state of its connection."""
_HERE = Style(underline=True, bold=True)


class Grid(NamedTuple):
    """The layout of nodes on the screen, in cells and lines."""

    label: int
    """Cells of a node's name with its sign; with one-cell nodes, of the first node of a line."""
    rank: int
    """Cells of a rank's number; 0 without room for it."""
    value: int
    """Cells of a value."""
    block: int
    """Cells from one node to the next."""
    across: int
    """Nodes per line."""
    lines: int
    far: bool = False
    """True if a node is one cell."""


def grid_of(model: ViewModel, metric: Metric, width: int, limit: int) -> Grid:
    """The most detailed grid within ``limit`` lines, else the smallest."""
    nodes = len(model.nodes)
    longest = max((cells(node.name) for node in model.nodes), default=4)
    label = min(longest, 16 if width < 100 else 28) + 3
    if nodes > MANY:
        fitting = ((cell, across) for cell in (2, 1) for across in ACROSS if across * cell <= width - label - 1)
        cell, across = next((found for found in fitting if -(-nodes // found[1]) <= limit), (1, width - label - 1))
        return Grid(label, 0, cell, cell, max(1, across), -(-nodes // max(1, across)), far=True)
    each = max((len(node.gpus) or len(node.ranks) for node in model.nodes), default=0) or UNSEEN
    rank = len(str(model.ranks[-1].number)) if model.ranks else 1
    for number, digits in ((rank, metric.digits + 1), (0, metric.digits), (0, 1)):
        block = label + each * (number + digits + 1) + 1
        across = max(1, min((width + 1) // block, nodes))
        grid = Grid(label, number, digits, block, across, max(1, -(-nodes // across)))
        if block <= width and grid.lines <= limit:
            break
    return grid


class HeatMap(Lines):
    """The heat map. Computes only visible nodes."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="heat")
        self.model = model
        self.chosen: Metric | None = None
        self.node_at = self.cell_at = 0
        self.moved = False
        """True once the user moved the cursor; until then it is on the first suspect."""
        self.limit = 10
        """Most lines before the map scrolls."""
        self.grid = Grid(8, 1, 4, 40, 1, 1)
        self._rows: tuple[Node, ...] = ()
        self._cells_of: dict[str, list[Cell]] = {}
        """Cells of this draw, by node; moving the cursor reuses them."""

    def draw(self) -> None:
        """Take the latest nodes and draw."""
        self._cells_of.clear()
        known = self._rows[self.node_at].name if self.node_at < len(self._rows) else ""
        self._rows = self.model.nodes
        if known and (self.node_at >= len(self._rows) or self._rows[self.node_at].name != known):
            names = [node.name for node in self._rows]
            self.node_at = names.index(known) if known in names else 0
        if not self.moved and (suspects := self.model.suspects):
            self.stand_on(suspects[0].node, suspects[0].number)
        self.grid = grid_of(self.model, self.metric, self.size.width, self.limit)
        self.resize_to(self.grid.lines)
        if not self.moved:
            self.bring(self.node_at // self.grid.across)
        self.redraw()

    @property
    def metric(self) -> Metric:
        """The chosen figure of the first node."""
        return self.metric_of(self._rows[0]) if self._rows else OF_GPUS[0]

    def metric_of(self, node: Node) -> Metric:
        """The chosen figure of a node."""
        metrics = metrics_of(self.model, node)
        return self.chosen if self.chosen in metrics else metrics[0]

    def next_metric(self) -> None:
        """Choose the next figure."""
        if self._rows:
            metrics = metrics_of(self.model, self._rows[0])
            self.chosen = metrics[(metrics.index(self.metric) + 1) % len(metrics)]

    # --- cursor -----------------------------------------------------------------------------------------

    def stand_on(self, node: Node, rank: int | None) -> None:
        """Put the cursor on a rank's cell."""
        self.node_at = next((at for at, each in enumerate(self._rows) if each is node), self.node_at)
        numbers = [cell.number for cell in self._cells(node)]
        self.cell_at = numbers.index(rank) if rank in numbers else 0

    def _cells(self, node: Node) -> list[Cell]:
        found = self._cells_of.get(node.name)
        if found is None:
            metric, model = self.metric_of(node), self.model
            found = [cell_of(model, node, metric)] if self.grid.far else cells_of(model, node, metric)
            self._cells_of[node.name] = found
        return found

    @property
    def current(self) -> tuple[Node, Cell | None] | None:
        """Node and cell under the cursor; without a cell if nodes have one cell or the node has none."""
        if self.node_at >= len(self._rows):
            return None
        node = self._rows[self.node_at]
        found = [] if self.grid.far else self._cells(node)
        return node, found[min(self.cell_at, len(found) - 1)] if found else None

    def move(self, how: Move) -> None:
        """Move from cell to cell, on to the next node, or from line to line."""
        if self._rows:
            last = len(self._cells(self._rows[self.node_at])) - 1
            way = {"left": -1, "right": 1}.get(how, 0)
            step, cell = step_of(how, self.size.height) * self.grid.across, min(self.cell_at, last) + way
            if way and not 0 <= cell <= last and 0 <= self.node_at + way < len(self._rows):
                step, cell = way, 0 if way > 0 else 1 << 20
            self._go(self.node_at + step, cell)

    def _go(self, node: int, cell: int) -> None:
        self.moved, self.node_at = True, max(0, min(len(self._rows) - 1, node))
        self.cell_at = max(0, min(cell, len(self._cells(self._rows[self.node_at])) - 1))
        self.bring(self.node_at // self.grid.across)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select a cell."""
        grid = self.grid
        column, inside = divmod(event.x - grid.label * grid.far, grid.block)
        index = (self.top + event.y) * grid.across + column
        if 0 <= column < grid.across and index < len(self._rows):
            self._go(index, (inside - grid.label) // (grid.rank + grid.value + 1))

    # --- drawing -------------------------------------------------------------------------------------------------

    def paint(self, y: int, width: int) -> Strip:
        """One line of nodes."""
        if not self._rows:
            return strip_of([("  no node has answered yet", Colour.DIM)] if y == 0 else [], width, self.palette)
        grid, line = self.grid, list[Segment]()
        first = (self.top + y) * grid.across
        for at, node in enumerate(self._rows[first : first + grid.across], first):
            if at == first or not grid.far:
                line += self._label(node, first <= self.node_at < first + grid.across if grid.far else at)
            line += self._block(at, node)
        return Strip(line).crop(0, width)

    def _label(self, node: Node, here: int | bool) -> list[Segment]:
        """The name of a node, with its link's sign or the cursor."""
        grid, palette = self.grid, self.palette
        under = here if grid.far else here == self.node_at
        glyph, colour = ("▸", Colour.ACCENT) if under else (" ", Colour.DIM) if grid.far else link_sign(node.link)
        ground = Background.STALE if self.model.stale(node) and not grid.far else Background.PLAIN
        name = fit(node.name, grid.label - 2)
        strong = Colour.DIM if grid.far else Colour.STRONG if under else Colour.TEXT
        return [Segment(f"{glyph} ", palette.of(colour)), Segment(name, palette.of(strong, ground))]

    def _block(self, at: int, node: Node) -> list[Segment]:
        """The cells of a node."""
        grid, found, here = self.grid, self._cells(node), at == self.node_at
        if grid.far:
            style = self._style(found[0], at_cursor=False, old=False)
            style = style + Style(reverse=True, bold=True) if here else style
            return [Segment(found[0].sign.rjust(grid.value), style)]
        room = grid.block - grid.label
        if not found:
            return [Segment(fit(self._why_none(node, room - 1), room), self.palette.of(Colour.DIM))]
        old = self.model.stale(node) or (source_is_stale(node, "gpus") and bool(node.gpus))
        line: list[Segment] = []
        for place, cell in enumerate(found):
            at_cursor = here and place == min(self.cell_at, len(found) - 1)
            value = cell.sign if grid.value == 1 else fit(cell.value, grid.value, "right")
            text = fit(cell.rank, grid.rank, "right") + value
            line.append(Segment("▸" if at_cursor else " ", self.palette.of(Colour.ACCENT)))
            line.append(Segment(text, self._style(cell, at_cursor=at_cursor, old=old)))
        left = room - len(found) * (grid.rank + grid.value + 1)
        return [*line, Segment(" " * max(0, left), self.palette.of(Colour.TEXT))]

    def _why_none(self, node: Node, room: int) -> str:
        if node.readable:
            return clip("no GPU, no rank", max(0, room))
        since = age(self.model.now - node.since) if node.since else ""
        return clip(f"{node.link} {since} {node.why}", max(0, room))

    def _style(self, cell: Cell, *, at_cursor: bool, old: bool) -> Style:
        palette = self.palette
        if cell.blamed:
            return palette.alarm[1] + _HERE if at_cursor else palette.alarm[1]
        if old or cell.heat is None:
            return palette.of(
                cell.colour, Background.CURSOR if at_cursor else Background.STALE if old else Background.PLAIN
            )
        style = palette.heated(cell.heat)
        return style + _HERE if at_cursor else style
