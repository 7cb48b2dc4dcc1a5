"""Nodes × GPUs as one grid: rank and value in every cell, the background as a help to the eye.

The closer zoom has a block a node: all its figures below each other where there is room for that, else the chosen one,
else a digit a GPU, in tenths of what is most. The farther one has a cell a node, for thousands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from hangtop.session.state.job_state import NodeState
from tui.figures.measure import source_is_stale
from tui.looks.format import age
from tui.looks.signs import link_sign
from tui.looks.text import cells as width_of
from tui.looks.text import clip, fit
from tui.looks.theme import HEAT_STEPS, Ground, Tone
from tui.scene import Scene
from tui.waits import letter_of
from tui.widgets.lines import Lines, Move, strip_of
from tui.widgets.metrics import OF_GPUS, WAITS, Cell, Metric, cells_of, metrics_of, values_of

ZOOMS = ("each GPU in figures", "a cell a node")
MANY = 128
"""Nodes from which on a node has a cell, unless somebody comes closer."""
FIGURE = 6
"""Cells of a figure's name where all figures are shown."""
ACROSS = (10, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
"""Nodes side by side in the farther zoom: numbers that make the first name of a line easy to count on from."""
_BOLD, _UNDER = Style(bold=True), Style(underline=True, bold=True)


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


class HeatGrid(Lines):
    """The grid. Only visible nodes are worked out."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="heat")
        self.scene = scene
        self.zoom: int | None = None
        """Place in :data:`ZOOMS` that was chosen; None is what shows a job of this size best."""
        self.chosen: Metric | None = None
        self.node_at = self.cell_at = 0
        self.moved = False
        """Whether somebody moved the cursor: until then it stands on whoever holds the others up."""
        self.limit = 10
        """Lines that it may take before it scrolls."""
        self._rows: list[NodeState] = []
        self._grid = Grid(8, 1, 5, 40, 1, 1, 1)

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

    def feed(self) -> None:
        """Take the latest nodes and draw."""
        known = self._rows[self.node_at].name if self.node_at < len(self._rows) else ""
        self._rows = self.scene.nodes
        if known and (self.node_at >= len(self._rows) or self._rows[self.node_at].name != known):
            names = [node.name for node in self._rows]
            self.node_at = names.index(known) if known in names else 0
        if not self.moved and (suspects := self.scene.suspects):
            self.stand_on(suspects[0].node, suspects[0].number)
        self._grid = self._measured(self.size.width)
        self.resize_to(self.lines)
        if not self.moved:
            self._bring()
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self.feed()

    @property
    def lines(self) -> int:
        """Lines that it fills."""
        return max(1, self._grid.down * self._grid.step - (self._grid.step > 1))

    # --- figures -------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> Metric:
        """The chosen figure of the first node."""
        return self.metric_of(self._rows[0]) if self._rows else OF_GPUS[0]

    def metric_of(self, node: NodeState) -> Metric:
        """The chosen figure of a node."""
        metrics = metrics_of(node, hangs=bool(self.scene.waits))
        return self.chosen if self.chosen in metrics else metrics[0]

    def next_metric(self, step: int) -> None:
        """Choose another figure."""
        if self._rows:
            metrics = metrics_of(self._rows[0], hangs=bool(self.scene.waits))
            self.chosen = metrics[(metrics.index(self.metric) + step) % len(metrics)]

    def cells(self, node: NodeState) -> list[Cell]:
        """All cells of a node, of the chosen figure."""
        return cells_of(self.scene, node, self.metric_of(node))

    def share(self, node: NodeState) -> float | None:
        """A node's mean of the chosen figure, 0 to 1 of what is most."""
        metric = self.metric_of(node)
        values = values_of(self.scene, node, metric)
        full = metric.full(next(iter(node.gpus.values()), None))
        return min(1.0, max(0.0, sum(values) / len(values) / full)) if values else None

    # --- where nodes lie -----------------------------------------------------------------------------------------

    def _measured(self, width: int) -> Grid:
        rows, names = self._rows, self.scene.names
        longest = max((width_of(names.of(node.name)) for node in rows), default=4)
        label = min(longest, 16 if width < 100 else 28) + 3
        if self.far:
            room = max(1, width - label - 1)
            fitting = ((cell, across) for cell in (2, 1) for across in ACROSS
                       if across * cell <= room and -(-len(rows) // across) <= self.limit)  # fmt: skip
            cell, across = next(fitting, (1, room))
            return Grid(label, 0, cell, cell, across, max(1, -(-len(rows) // across)), 1)
        most = max((len(node.gpus) or len(node.ranks) for node in rows), default=1) or 1
        rank = len(str(self.scene.ranks[-1].number)) if self.scene.ranks else 1
        every = max((metrics_of(node, hangs=bool(self.scene.waits)) for node in rows[:1]), default=(WAITS,), key=len)
        widest = max(metric.digits for metric in every)
        tried = [
            (len(every), rank + 1, widest),
            (1, rank + 1, self.metric.digits),
            (1, 0, self.metric.digits),
            (0, 0, 1),
        ]
        grid = self._grid
        for figures, numbers, wide in tried:
            cell = numbers + wide
            block = label + (FIGURE if figures > 1 else 0) + most * (cell + 1) + 1
            across = max(1, min((width + 1) // block, len(rows)))
            grid = Grid(label, max(0, numbers - 1), cell, block, across, max(1, -(-len(rows) // across)), figures)
            if block <= width and grid.down * grid.step - 1 <= self.limit:
                break
        return grid

    def _place(self, x: int, y: int) -> int | None:
        """The node at a cell of the content; None where there is none."""
        grid = self._grid
        if self.far:
            column = (x - grid.label) // grid.cell
            index = y * grid.across + column if 0 <= column < grid.across else -1
        else:
            row = y // grid.step
            index = x // grid.block * grid.down + row if row < grid.down else -1
        return index if 0 <= index < len(self._rows) else None

    def _line_of(self, index: int) -> int:
        return index // self._grid.across if self.far else index % self._grid.down * self._grid.step

    def stand_on(self, node: NodeState, rank: int | None) -> None:
        """Put the cursor on a rank's cell."""
        self.node_at = next((at for at, each in enumerate(self._rows) if each is node), self.node_at)
        numbers = [cell.number for cell in self.cells(node)]
        self.cell_at = numbers.index(rank) if rank in numbers else 0

    @property
    def current(self) -> tuple[NodeState, Cell | None] | None:
        """Node and cell under the cursor; no cell where a node has but one."""
        if self.node_at >= len(self._rows):
            return None
        node = self._rows[self.node_at]
        found = [] if self.far else self.cells(node)
        return node, found[min(self.cell_at, len(found) - 1)] if found else None

    def move(self, how: Move) -> None:
        """Move from cell to cell, and over to the block beside; in the farther zoom from node to node."""
        if not self._rows:
            return
        self.moved = True
        grid, last = self._grid, max(0, len(self.cells(self._rows[self.node_at])) - 1)
        cell, far = min(self.cell_at, last), len(self._rows)
        page = max(1, self.size.height // grid.step)
        if self.far:
            steps = {"left": -1, "right": 1, "up": -grid.across, "down": grid.across}
            steps |= {"page_up": -page * grid.across, "page_down": page * grid.across}
        else:
            steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "left": 0, "right": 0}
            if how in ("left", "right"):
                step = -1 if how == "left" else 1
                cell += step
                if not 0 <= cell <= last and 0 <= self.node_at + step * grid.down < far:
                    steps[how], cell = step * grid.down, 0 if step > 0 else 1 << 20
        target = self.node_at + (steps | {"first": -far, "last": far})[how]
        self.node_at = max(0, min(far - 1, target))
        self.cell_at = max(0, min(cell, len(self.cells(self._rows[self.node_at])) - 1))
        self._bring()
        self.redraw()

    def _bring(self) -> None:
        line = self._line_of(self.node_at)
        self.bring(line + max(1, self._grid.figures) - 1)
        self.bring(line)

    def on_click(self, event: events.Click) -> None:
        """Select a cell; twice enters it."""
        index = self._place(event.x, self.top + event.y)
        if index is not None:
            self.moved, self.node_at, grid = True, index, self._grid
            inside = event.x % grid.block - grid.label - (FIGURE if grid.figures > 1 else 0)
            self.cell_at = max(0, min(inside // (grid.cell + 1), len(self.cells(self._rows[index])) - 1))
            self.redraw()
            if event.chain == 2:
                self.post_message(self.Entered())

    # --- drawing -------------------------------------------------------------------------------------------------

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        if not self._rows:
            return strip_of([("  no node has answered yet", Tone.DIM)] if y == 0 else [], width, self.ink)
        return Strip(self._far_line(self.top + y) if self.far else self._near_line(self.top + y)).crop(0, width)

    def _near_line(self, y: int) -> list[Segment]:
        """A figure of a node in every block."""
        grid, line = self._grid, list[Segment]()
        place, figure = divmod(y, grid.step)
        for index in range(place, len(self._rows), grid.down) if place < grid.down else ():
            if figure < max(1, grid.figures):
                part = self._node(index, figure)
                used = sum(segment.cell_length for segment in part)
                line += [*part, Segment(" " * max(0, grid.block - used), self.ink.of(Tone.TEXT))]
        return line

    def _node(self, index: int, figure: int) -> list[Segment]:
        node, grid, ink, here = self._rows[index], self._grid, self.ink, index == self.node_at
        stale = self.scene.stale(node)
        ground = Ground.STALE if stale else Ground.PLAIN
        line = [Segment(" " * grid.label, ink.of(Tone.TEXT))]
        if figure == 0:
            glyph, tone = link_sign(node.link)
            name = fit(self.scene.names.of(node.name), grid.label - 2)
            line = [
                Segment("▸ " if here else f"{glyph} ", ink.of(Tone.ACCENT if here else tone)),
                Segment(name, ink.of(Tone.STRONG if here else Tone.TEXT, ground)),
            ]
        metric = self.metric_of(node)
        if grid.figures > 1:
            metrics = metrics_of(node, hangs=bool(self.scene.waits))
            if figure >= len(metrics):
                return line
            chosen, metric = metric, metrics[figure]
            strong = metric is chosen and here
            line.append(Segment(fit(metric.short, FIGURE), ink.of(Tone.TEXT if strong else Tone.DIM)))
        found = cells_of(self.scene, node, metric)
        if not found:
            return [*line, Segment(self._why_none(node), ink.of(Tone.DIM))] if figure == 0 else line
        old = stale or (source_is_stale(node, "gpus") and bool(node.gpus))
        for place, cell in enumerate(found):
            at_cursor = here and figure == 0 and place == min(self.cell_at, len(found) - 1)
            line += self._cell(cell, at_cursor=at_cursor, old=old, numbered=figure == 0)
        return line

    def _why_none(self, node: NodeState) -> str:
        room = max(0, self._grid.block - self._grid.label - 1)
        if node.link in {"live", "limited", "offline"}:
            return clip("no GPU, no rank", room)
        return clip(f"{node.link} {age(self.scene.now - node.since) if node.since else ''} {node.why}", room)

    def _cell(self, cell: Cell, *, at_cursor: bool, old: bool, numbered: bool) -> list[Segment]:
        grid, ink = self._grid, self.ink
        if cell.blamed:
            style = strong = ink.alarm[2] + _UNDER if at_cursor else ink.alarm[2]
        elif old:
            style = strong = ink.of(cell.tone, Ground.STALE_CURSOR if at_cursor else Ground.STALE)
        elif cell.heat is None:
            style = strong = ink.of(cell.tone, Ground.CURSOR if at_cursor else Ground.PLAIN)
        else:
            style, strong = _hot(ink.heat[round(cell.heat * (HEAT_STEPS - 1))], at_cursor)
        edge = Segment("▸" if at_cursor and grid.figures else " ", ink.of(Tone.ACCENT))
        if grid.figures == 0:
            return [edge, Segment(cell.sign, style)]
        value = Segment(fit(cell.value, grid.cell - grid.rank, "right"), strong)
        number = fit(cell.rank, grid.rank, "right") if numbered else " " * grid.rank
        return [edge, *([Segment(number, style)] if grid.rank else []), value]

    def _far_line(self, y: int) -> list[Segment]:
        """Nodes that follow each other, the line named by its first."""
        grid, first = self._grid, y * self._grid.across
        shown = self._rows[first : first + grid.across]
        if not shown:
            return []
        here = first <= self.node_at < first + grid.across
        line = [
            Segment("▸ " if here else "  ", self.ink.of(Tone.ACCENT)),
            Segment(fit(self.scene.names.of(shown[0].name), grid.label - 2), self.ink.of(Tone.DIM)),
        ]
        for at, node in enumerate(shown, first):
            text, style = self._node_cell(node)
            if at == self.node_at:
                style += Style(reverse=True, bold=True)
            line.append(Segment(text.rjust(grid.cell), style))
        return line

    def _node_cell(self, node: NodeState) -> tuple[str, Style]:
        """A letter of the box that tells most, a tenth of what is most, or how it is connected."""
        ink, metric = self.ink, self.metric_of(node)
        if metric is WAITS:
            places = [self.scene.waiting.place_of.get(rank.process.rank) for rank in node.ranks.values()]
            known = [place for place in places if place is not None]
            if known:
                boxes = self.scene.waits
                place = min(known, key=lambda each: (not boxes[each].blamed, len(boxes[each].ranks)))
                blamed = boxes[place].blamed
                return letter_of(place), ink.alarm[2] if blamed else ink.of(Tone.TEXT)
        if node.link not in {"live", "limited", "offline"} or self.scene.stale(node):
            glyph, tone = link_sign(node.link)
            return glyph, ink.of(tone)
        share = self.share(node)
        if share is None:
            return "·", ink.of(Tone.DIM)
        return str(min(9, int(share * 10))), ink.heat[round(share * (HEAT_STEPS - 1))]


@lru_cache(128)
def _hot(style: Style, under: bool) -> tuple[Style, Style]:
    """Styles of a rank's number and of its value: adding them up anew for each cell takes longer than the rest."""
    plain = style + _UNDER if under else style
    return plain, plain + _BOLD
