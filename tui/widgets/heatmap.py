"""Nodes × GPUs as one grid: the rank's number and the value in every cell, the background as a help to the eye.

A small job shows all figures of every node below each other, a large one the chosen figure alone, so that as much of it
as possible is on the screen at once.
"""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style
from textual import events
from textual.strip import Strip

from hangtop.session.state.job_state import NodeState
from tui.figures.measure import source_is_stale
from tui.looks.format import age
from tui.looks.text import cells as width_of
from tui.looks.text import clip, fit
from tui.looks.theme import HEAT_STEPS, Ground, Ink, Tone
from tui.ordering.rows import Lists, RankRow
from tui.scene import Scene
from tui.widgets.cellgrid import FIGURE, Grid
from tui.widgets.heat import GPU_METRICS, Cell, Metric, cells_of, metrics_of
from tui.widgets.lines import BAR, Lines, Move, strip_of
from tui.widgets.links import link_glyph
from tui.widgets.runs import Runs

WORDS = 32
"""Cells for why a node has none, where no node has any."""
READABLE = 18
"""Cells from which on a part of why a node is lost says something."""
_BOLD = Style(bold=True)
_UNDER = Style(underline=True, bold=True)


class HeatMap(Lines):
    """The grid. Only visible nodes are worked out."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="heatmap")
        self.scene = scene
        self.chosen: Metric | None = None
        """The figure that was chosen; None is the first."""
        self.node_at = 0
        self.cell_at = 0
        self.room = 10
        """Lines that may be taken."""
        self.lines = 0
        """Lines that it fills; 0 until it was drawn."""
        self.moved = False
        """Whether somebody moved the cursor: until then it stands on whoever holds the others up."""
        self._suspects: frozenset[int] = frozenset()
        self._hangs = False
        self._measured: tuple[int, int, Metric | None, bool, Lists | None] = (0, 0, None, False, None)
        self._rows: list[NodeState] = []
        self._grid = Grid(8, 1, 5, 40, 1, 0, 1)

    def feed(self, room: int) -> None:
        """Take the latest nodes and draw, in ``room`` lines at most before scrolling."""
        known = self._rows[self.node_at].name if self.node_at < len(self._rows) else ""
        self._rows, self.room = self.scene.nodes, room
        if known and (self.node_at >= len(self._rows) or self._rows[self.node_at].name != known):
            names = [node.name for node in self._rows]
            self.node_at = names.index(known) if known in names else 0
        verdict = self.scene.session.verdict
        self._suspects = frozenset(verdict.findings[0].ranks if verdict and verdict.findings else ())
        self._hangs = bool(self.scene.waits)
        if not self.moved and (suspects := self.scene.suspects):
            self._stand_on(suspects[0])
        measured = (self.size.width, room, self.chosen, self._hangs, self.scene.lists)
        # other lists are made whenever a node, a rank or a GPU has come or gone; that of the nodes may stay the same
        if measured[:4] != self._measured[:4] or measured[4] is not self._measured[4]:
            self._measured, self._grid = measured, self._measure(self.size.width)
        grid = self._grid
        self.lines = max(1, grid.nodes * grid.step - (grid.step > 1))
        self.resize_to(self.size.width, self.lines)
        self.redraw()

    @property
    def metric(self) -> Metric:
        """The chosen figure of the first node."""
        return self.metric_of(self._rows[0]) if self._rows else GPU_METRICS[0]

    def metric_of(self, node: NodeState) -> Metric:
        """The chosen figure of a node."""
        metrics = self._metrics(node)
        return self.chosen if self.chosen in metrics else metrics[0]

    def turn(self, step: int) -> None:
        """Choose another figure."""
        if self._rows:
            metrics = self._metrics(self._rows[0])
            self.chosen = metrics[(metrics.index(self.metric) + step) % len(metrics)]

    def _metrics(self, node: NodeState) -> tuple[Metric, ...]:
        return metrics_of(node, hangs=self._hangs)

    def cells(self, node: NodeState, figure: int | None = None) -> list[Cell]:
        """All cells of a node, of the chosen figure or another."""
        metrics = self._metrics(node)
        return cells_of(self.scene, node, self.metric_of(node) if figure is None else metrics[figure % len(metrics)])

    def _measure(self, width: int) -> Grid:
        nodes = self._rows
        most = max((len(node.gpus) or len(node.ranks) for node in nodes), default=1) or 1
        rank = len(str(self.scene.ranks[-1].number)) if self.scene.ranks else 1
        names = (width_of(self.scene.names.of(node.name)) for node in nodes)
        label = min(max(names, default=4), 16 if width < 100 else 28) + 3
        figures = max((len(self._metrics(node)) for node in nodes), default=1)
        widest = max((metric.digits for node in nodes[:1] for metric in self._metrics(node)), default=3)
        for shown in (figures, 1):
            figure = FIGURE if shown > 1 else 0
            digits = widest if shown > 1 else self.metric.digits
            for numbers in (rank, 0):  # figures are never cut: before that nobody's number is said
                cell = (numbers + 1 if numbers else 0) + digits
                block = label + figure + most * (cell + 1) + 1
                if block <= width - BAR + 1:
                    break
            if not any(node.gpus or node.ranks for node in nodes):
                # words alone: why there is nothing to be seen
                block = max(block, (width + 1) // max(1, min((width + 1) // (label + WORDS), len(nodes))))
            for room in (width, width - BAR):
                blocks = max(1, min((room + 1) // block, len(nodes)))
                below = -(-len(nodes) // blocks) if nodes else 0
                grid = Grid(label, numbers, cell, block, blocks, below, shown)
                if below * grid.step - 1 <= self.room:
                    return grid
        return grid

    def _stand_on(self, row: RankRow) -> None:
        """Put the cursor on a rank's cell."""
        self.node_at = next((at for at, node in enumerate(self._rows) if node is row.node), self.node_at)
        numbers = [cell.number for cell in self.cells(row.node)]
        self.cell_at = numbers.index(row.number) if row.number in numbers else 0

    # --- moving --------------------------------------------------------------------------------------------------

    @property
    def current(self) -> tuple[NodeState, Cell | None] | None:
        """Node and cell under the cursor."""
        if self.node_at >= len(self._rows):
            return None
        node = self._rows[self.node_at]
        found = self.cells(node)
        return node, found[min(self.cell_at, len(found) - 1)] if found else None

    def move(self, how: Move) -> None:
        """Move the cursor from cell to cell; left and right go over to the block beside."""
        if not self._rows:
            return
        self.moved = True
        below = max(1, self._grid.nodes)
        last = max(0, len(self.cells(self._rows[self.node_at])) - 1)
        target, cell = self.node_at, min(self.cell_at, last)
        if how == "left":
            if cell > 0:
                cell -= 1
            elif target - below >= 0:
                target, cell = target - below, 1 << 20
        elif how == "right":
            if cell < last:
                cell += 1
            elif target + below < len(self._rows):
                target, cell = target + below, 0
        else:
            page = max(1, self.size.height // self._grid.step)
            far = len(self._rows)
            target += {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -far, "last": far}[how]
        before, top = self._lines_of(self.node_at), self.top
        self.node_at = max(0, min(len(self._rows) - 1, target))
        self.cell_at = min(cell, max(0, len(self.cells(self._rows[self.node_at])) - 1))
        here = self._lines_of(self.node_at)
        self.bring(here[-1])
        self.bring(here[0])
        self.redraw([line - top for line in (*before, *here)] if self.top == top else None)

    def _lines_of(self, node_at: int) -> range:
        """Content lines of a node."""
        first = node_at % max(1, self._grid.nodes) * self._grid.step
        return range(first, first + self._grid.figures)

    # --- drawing -------------------------------------------------------------------------------------------------

    def paint(self, y: int, width: int) -> Strip:
        """One line: a figure of a node in every block."""
        grid = self._grid
        if not self._rows:
            return strip_of([("  no node has answered yet", Tone.DIM)] if y == 0 else [], width, self.ink)
        place, figure = divmod(self.top + y, grid.step)
        plain = self.ink.of(Tone.TEXT)
        line = Runs(plain)
        for block in range(grid.blocks):
            index = block * grid.nodes + place
            if place >= grid.nodes or index >= len(self._rows) or figure >= grid.figures:
                break
            line.add(" " * (grid.block - self._node(line, index, figure)), plain)
        # more may have come since it was measured: what is over must be cut, or it lands on the widget beside this one
        return line.strip().adjust_cell_length(width, plain)

    def _node(self, line: Runs, index: int, figure: int) -> int:
        """Add one figure's line of one node; returns its width."""
        node, grid, ink = self._rows[index], self._grid, self.ink
        here, stale = index == self.node_at, self.scene.stale(node)
        ground = Ground.STALE if stale else Ground.PLAIN
        if figure == 0:
            glyph, tone = link_glyph(node.link)
            line.add(f"{glyph} ", ink.of(tone))
            line.add(
                fit(self.scene.names.of(node.name), grid.label - 2), ink.of(Tone.STRONG if here else Tone.TEXT, ground)
            )
        else:
            line.add(" " * grid.label, ink.of(Tone.TEXT))
        metrics, found = self._metrics(node), self.cells(node, figure if grid.figures > 1 else None)
        if not found:
            return grid.label + (self._words(line, node) if figure == 0 else 0)
        before = grid.label
        if grid.figures > 1:
            metric = metrics[figure] if figure < len(metrics) else None
            chosen = metric is self.metric_of(node)
            name = metric.short if metric is not None else ""
            line.add(fit(name, FIGURE), ink.of(Tone.TEXT if chosen and here else Tone.DIM))
            before += FIGURE
            if metric is None:
                return before
        old = stale or (source_is_stale(node, "gpus") and bool(node.gpus))
        at = min(self.cell_at, len(found) - 1) if here else -1
        for place, cell in enumerate(found):
            self._cell(line, cell, ink, at_cursor=place == at, old=old, numbered=figure == 0)
        return before + len(found) * (1 + grid.cell)

    def _words(self, line: Runs, node: NodeState) -> int:
        """Instead of cells: why there are none."""
        gap = "" if fit(self.scene.names.of(node.name), self._grid.label - 2).endswith(" ") else " "
        room = max(0, self._grid.block - self._grid.label - 1 - len(gap))
        if node.link in {"live", "limited", "offline"}:
            told = ["no GPU, no rank", "no rank"]
        else:
            since = age(self.scene.now - node.since) if node.since else ""
            told = [f"{node.link} {since} {node.why}", f"{node.link} {since}", node.link]
        whole = next((text for text in told if len(text) <= room), "")
        line.add(gap + fit(clip(told[0], room) if room >= READABLE else whole, room), self.ink.of(Tone.DIM))
        return room + len(gap)

    def _cell(self, line: Runs, cell: Cell, ink: Ink, *, at_cursor: bool, old: bool, numbered: bool) -> None:
        grid = self._grid
        if cell.blamed:
            style = strong = ink.alarm[2] + _UNDER if at_cursor else ink.alarm[2]
        elif old:
            style = strong = ink.of(cell.tone, Ground.STALE_CURSOR if at_cursor else Ground.STALE)
        elif cell.heat is None:
            style = strong = ink.of(cell.tone, Ground.CURSOR if at_cursor else Ground.PLAIN)
        else:
            style, strong = _hot(ink.heat[round(cell.heat * (HEAT_STEPS - 1))], at_cursor and numbered)
        edge = ink.of(Tone.ACCENT if at_cursor else Tone.BAD)
        if numbered:
            suspect = cell.number is not None and cell.number in self._suspects
            line.add("▸" if at_cursor else "!" if suspect else " ", edge)
            if grid.rank:
                line.add(_right(cell.rank, grid.rank), style)
            line.add(_right(cell.value, grid.cell - grid.rank), strong)
        else:
            line.add(" ", edge)
            line.add(_right(cell.value, grid.cell), style)

    # --- mouse ---------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Select a cell; twice enters it."""
        grid = self._grid
        place = (self.top + event.y) // grid.step
        index = (event.x // grid.block) * grid.nodes + place
        if place < grid.nodes and index < len(self._rows):
            self.moved, self.node_at = True, index
            inside = event.x % grid.block - grid.label - (FIGURE if grid.figures > 1 else 0)
            self.cell_at = max(0, min(inside // (grid.cell + 1), len(self.cells(self._rows[index])) - 1))
            self.redraw()
            if event.chain == 2:
                self.post_message(self.Entered())


def _right(text: str, width: int) -> str:
    """Short text of ours at the right of so many cells."""
    return text.rjust(width) if len(text) <= width else fit(text, width, "right")


@lru_cache(128)
def _hot(style: Style, under: bool) -> tuple[Style, Style]:
    """Styles of a rank's number and of its value: adding them up anew for each cell takes longer than the rest."""
    plain = style + _UNDER if under else style
    return plain, plain + _BOLD
