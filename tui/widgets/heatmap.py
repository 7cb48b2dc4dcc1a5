"""Nodes × GPUs as one grid: rank and value in every cell, the background as a help to the eye.

The closer zoom has a block a node: all its figures below each other where there is room for that, else the chosen one,
else a digit a GPU, in tenths of what is most. The farther one has a cell a node, for thousands.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from hangtop.session.state.job_state import NodeState
from tui.looks.format import age
from tui.looks.signs import link_sign
from tui.looks.text import clip, fit
from tui.looks.theme import HEAT_STEPS, Background, Colour
from tui.measure import source_is_stale
from tui.view_model import ViewModel
from tui.waits import letter_of
from tui.widgets.grid import FIGURE, Grid, far_grid, near_grid
from tui.widgets.lines import Lines, Move, step_of, strip_of
from tui.widgets.metrics import OF_GPUS, WAITS, Cell, Metric, cells_of, metrics_of

ZOOMS = ("each GPU in figures", "a cell a node")
MANY = 128
"""Nodes from which on a node has a cell, unless somebody comes closer."""
_HERE = Style(underline=True, bold=True)


class HeatMap(Lines):
    """The grid. Only visible nodes are worked out."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="heat")
        self.model = model
        self.zoom: int | None = None
        """Place in :data:`ZOOMS` that was chosen; None is what shows a job of this size best."""
        self.chosen: Metric | None = None
        self.node_at = self.cell_at = 0
        self.moved = False
        """Whether somebody moved the cursor: until then it stands on whoever holds the others up."""
        self.limit = 10
        """Lines that it may take before it scrolls."""
        self._rows: tuple[NodeState, ...] = ()
        self.grid = Grid(8, 1, 5, 40, 1, 1, 1)

    @property
    def far(self) -> bool:
        """Whether a node has one cell."""
        return (len(self._rows) > MANY) if self.zoom is None else self.zoom == 1

    def next_zoom(self, step: int) -> str:
        """Come closer (-1) or go farther (1); returns what is shown then."""
        now = int(self.far)
        self.zoom = max(0, min(1, now + step))
        at_end = f": nothing is {'closer' if step < 0 else 'farther'}" if self.zoom == now else ""
        return f"{ZOOMS[self.zoom]}{at_end}"

    def draw(self) -> None:
        """Take the latest nodes and draw."""
        known = self._rows[self.node_at].name if self.node_at < len(self._rows) else ""
        self._rows = self.model.nodes
        if known and (self.node_at >= len(self._rows) or self._rows[self.node_at].name != known):
            names = [node.name for node in self._rows]
            self.node_at = names.index(known) if known in names else 0
        if not self.moved and (suspects := self.model.suspects):
            self.stand_on(suspects[0].node, suspects[0].number)
        made = far_grid if self.far else near_grid
        self.grid = made(self.model, self.metric, (self.size.width, self.limit))
        self.resize_to(self.grid.lines)
        if not self.moved:
            self._bring()
        self.redraw()

    # --- figures -------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> Metric:
        """The chosen figure of the first node."""
        return self.metric_of(self._rows[0]) if self._rows else OF_GPUS[0]

    def metric_of(self, node: NodeState) -> Metric:
        """The chosen figure of a node."""
        metrics = metrics_of(self.model, node)
        return self.chosen if self.chosen in metrics else metrics[0]

    def next_metric(self, step: int) -> None:
        """Choose another figure."""
        if self._rows:
            metrics = metrics_of(self.model, self._rows[0])
            self.chosen = metrics[(metrics.index(self.metric) + step) % len(metrics)]

    def share(self, node: NodeState) -> float | None:
        """A node's mean of the chosen figure, 0 to 1 of what is most."""
        metric = self.metric_of(node)
        values = metric.values(self.model, node)
        full = metric.full(next(iter(node.gpus.values()), None))
        return min(1.0, max(0.0, sum(values) / len(values) / full)) if values else None

    # --- where nodes lie -----------------------------------------------------------------------------------------

    def stand_on(self, node: NodeState, rank: int | None) -> None:
        """Put the cursor on a rank's cell."""
        self.node_at = next((at for at, each in enumerate(self._rows) if each is node), self.node_at)
        numbers = [cell.number for cell in self._cells(node)]
        self.cell_at = numbers.index(rank) if rank in numbers else 0

    def _cells(self, node: NodeState) -> list[Cell]:
        return cells_of(self.model, node, self.metric_of(node))

    @property
    def current(self) -> tuple[NodeState, Cell | None] | None:
        """Node and cell under the cursor; no cell where a node has but one."""
        if self.node_at >= len(self._rows):
            return None
        node = self._rows[self.node_at]
        found = [] if self.far else self._cells(node)
        return node, found[min(self.cell_at, len(found) - 1)] if found else None

    def move(self, how: Move) -> None:
        """Move from cell to cell, and over to the block beside; in the farther zoom from node to node."""
        if not self._rows:
            return
        self.moved = True
        at, layout, last = self.node_at, self.grid, len(self._cells(self._rows[self.node_at])) - 1
        line = layout.across if self.far else 1
        step = step_of(how, self.size.height // layout.step) * line
        way = {"left": -1, "right": 1}.get(how, 0)
        if way and self.far:
            step = way
        elif way:
            self.cell_at = min(self.cell_at, last) + way
            beside = at + way * layout.down
            if not 0 <= self.cell_at <= last and 0 <= beside < len(self._rows):
                step, self.cell_at = beside - at, 0 if way > 0 else 1 << 20
        self.node_at = max(0, min(len(self._rows) - 1, at + step))
        self.cell_at = max(0, min(self.cell_at, len(self._cells(self._rows[self.node_at])) - 1))
        self._bring()
        self.redraw()

    def _bring(self) -> None:
        layout = self.grid
        line = self.node_at // layout.across if self.far else self.node_at % layout.down * layout.step
        self.bring(line + max(1, layout.figures) - 1)
        self.bring(line)

    def on_click(self, event: events.Click) -> None:
        """Select a cell; twice enters it."""
        layout, y = self.grid, self.top + event.y
        if self.far:
            column, row = (event.x - layout.label) // layout.cell, y
            index = row * layout.across + column if 0 <= column < layout.across else -1
        else:
            column, row = event.x // layout.block, y // layout.step
            index = column * layout.down + row if row < layout.down else -1
        if 0 <= index < len(self._rows):
            self.moved, self.node_at = True, index
            inside = event.x % layout.block - layout.label - (FIGURE if layout.figures > 1 else 0)
            self.cell_at = max(0, min(inside // (layout.cell + 1), len(self._cells(self._rows[index])) - 1))
            self.redraw()
            if event.chain == 2:
                self.post_message(self.Entered())

    # --- drawing -------------------------------------------------------------------------------------------------

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        if not self._rows:
            return strip_of([("  no node has answered yet", Colour.DIM)] if y == 0 else [], width, self.palette)
        return Strip(self._far_line(self.top + y) if self.far else self._near_line(self.top + y)).crop(0, width)

    def _near_line(self, y: int) -> list[Segment]:
        """A figure of a node in every block."""
        layout, line = self.grid, list[Segment]()
        place, figure = divmod(y, layout.step)
        for index in range(place, len(self._rows), layout.down) if place < layout.down else ():
            if figure < max(1, layout.figures):
                part = self._block(index, figure)
                used = sum(segment.cell_length for segment in part)
                line += [*part, Segment(" " * max(0, layout.block - used), self.palette.of(Colour.TEXT))]
        return line

    def _block(self, index: int, figure: int) -> list[Segment]:
        node, layout, palette, here = self._rows[index], self.grid, self.palette, index == self.node_at
        stale = self.model.stale(node)
        line = [Segment(" " * layout.label, palette.of(Colour.TEXT))]
        if figure == 0:
            glyph, colour = ("▸", Colour.ACCENT) if here else link_sign(node.link)
            name = fit(self.model.names.of(node.name), layout.label - 2)
            ground = Background.STALE if stale else Background.PLAIN
            strong = Colour.STRONG if here else Colour.TEXT
            line = [Segment(f"{glyph} ", palette.of(colour)), Segment(name, palette.of(strong, ground))]
        metric = self.metric_of(node)
        if layout.figures > 1:
            metrics = metrics_of(self.model, node)
            if figure >= len(metrics):
                return line
            chosen, metric = metric, metrics[figure]
            line.append(
                Segment(fit(metric.short, FIGURE), palette.of(Colour.TEXT if here and metric is chosen else Colour.DIM))
            )
        found = cells_of(self.model, node, metric)
        if not found:
            return [*line, Segment(self._why_none(node), palette.of(Colour.DIM))] if figure == 0 else line
        old = stale or (source_is_stale(node, "gpus") and bool(node.gpus))
        for place, cell in enumerate(found):
            at_cursor = here and figure == 0 and place == min(self.cell_at, len(found) - 1)
            line += self._cell(cell, at_cursor=at_cursor, old=old, numbered=figure == 0)
        return line

    def _why_none(self, node: NodeState) -> str:
        room = max(0, self.grid.block - self.grid.label - 1)
        if node.link in {"live", "limited", "offline"}:
            return clip("no GPU, no rank", room)
        return clip(f"{node.link} {age(self.model.now - node.since) if node.since else ''} {node.why}", room)

    def _cell(self, cell: Cell, *, at_cursor: bool, old: bool, numbered: bool) -> list[Segment]:
        layout, palette = self.grid, self.palette
        if cell.blamed:
            style = palette.alarm[2] + _HERE if at_cursor else palette.alarm[2]
        elif old:
            style = palette.of(cell.colour, Background.STALE_CURSOR if at_cursor else Background.STALE)
        elif cell.heat is None:
            style = palette.of(cell.colour, Background.CURSOR if at_cursor else Background.PLAIN)
        else:
            style = palette.heat[round(cell.heat * (HEAT_STEPS - 1))]
            style = style + _HERE if at_cursor else style
        edge = Segment("▸" if at_cursor and layout.figures else " ", palette.of(Colour.ACCENT))
        if layout.figures == 0:
            return [edge, Segment(cell.sign, style)]
        value = fit(cell.value, layout.cell - layout.rank, "right")
        number = fit(cell.rank, layout.rank, "right") if numbered else " " * layout.rank
        return [edge, Segment(number + value, style)]

    def _far_line(self, y: int) -> list[Segment]:
        """Nodes that follow each other, the line named by its first."""
        layout, first = self.grid, y * self.grid.across
        shown = self._rows[first : first + layout.across]
        if not shown:
            return []
        here = first <= self.node_at < first + layout.across
        line = [
            Segment("▸ " if here else "  ", self.palette.of(Colour.ACCENT)),
            Segment(fit(self.model.names.of(shown[0].name), layout.label - 2), self.palette.of(Colour.DIM)),
        ]
        for at, node in enumerate(shown, first):
            text, style = self._node_cell(node)
            style = style + Style(reverse=True, bold=True) if at == self.node_at else style
            line.append(Segment(text.rjust(layout.cell), style))
        return line

    def _node_cell(self, node: NodeState) -> tuple[str, Style]:
        """A letter of the box that tells most, a tenth of what is most, or how it is connected."""
        palette, boxes = self.palette, self.model.waits
        if self.metric_of(node) is WAITS:
            places = [self.model.waiting.place_of.get(rank.process.rank) for rank in node.ranks.values()]
            known = [place for place in places if place is not None]
            if known:
                place = min(known, key=lambda each: (not boxes[each].blamed, len(boxes[each].ranks)))
                return letter_of(place), palette.alarm[2] if boxes[place].blamed else palette.of(Colour.TEXT)
        if node.link not in {"live", "limited", "offline"} or self.model.stale(node):
            glyph, colour = link_sign(node.link)
            return glyph, palette.of(colour)
        share = self.share(node)
        if share is None:
            return "·", palette.of(Colour.DIM)
        return str(min(9, int(share * 10))), palette.heat[round(share * (HEAT_STEPS - 1))]
