"""Panel 1: the job over time and now: charts, heat map, wait tree, events, ranks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual.app import ComposeResult
from textual.containers import Container

from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from tui.logs.changes import chosen
from tui.looks.format import UNKNOWN, clock, number
from tui.looks.text import cells, fit
from tui.looks.theme import Colour
from tui.measure import last_step, seconds_a_step
from tui.ordering.rows import RankRow, ranks_on_node
from tui.panels.base import Panel, Place, Selection
from tui.panels.job_line import change_line, figures, job_line
from tui.texts.findings import wait_tree
from tui.texts.lastlines import last_line_of_each, lines_of, paths_of
from tui.view_model import ViewModel
from tui.widgets.chart import TimeChart
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Bar, Content, Lines, Piece
from tui.widgets.textview import TextView

BESIDE = 110
"""Width in cells from which parts are side by side."""
CHARTS = ((42, 15), (30, 11), (24, 8), (15, 3))
"""(Least lines of the panel, lines of its charts)."""
TREE = 6
"""Lines below the map from which there is room for more than events."""
ACCUSED = 4
"""Most suspects whose last lines are shown."""
LISTED = 16
"""Most ranks that are listed, because nodes read their logs for it."""
_TONES = (Colour.TEXT, Colour.WARN, Colour.BAD)


class OverviewPanel(Panel):
    """From the top: charts, heat map, wait tree, events, and ranks or last log lines."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "ranks", "details"})

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar, self.time, self.heat = Bar(id="summary"), TimeChart(model), HeatMap(model)
        self.waits, self.happened = TextView(id="waits", hint="7 Findings"), TextView(id="changes")
        self.lines = TextView(id="lastlines", hint="2 Ranks, 5 Logs")
        for part in (self.waits, self.happened, self.lines):
            part.can_focus = False
        self.lower = Container(id="lower")
        self._drawn: tuple[object, int, int] = (None, 0, 0)
        """Changes, their number and the lines for which events were last drawn."""
        self._viewed: set[str] = set()
        """Log files whose raw lines were asked for."""

    def compose(self) -> ComposeResult:
        """Job line, charts, map, waits, events, and ranks."""
        yield self.bar
        yield self.time
        yield self.heat
        yield self.waits
        with self.lower:
            yield self.happened
            yield self.lines

    @property
    def main(self) -> Lines:
        """The map."""
        return self.heat

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all that is shown."""
        if not self.size:
            return
        self._draw_waits()
        self._share_room()
        self.bar.show(self._fitting(job_line(self.model)), self._fitting(figures(self.model, self.heat.metric)))
        for part in (self.time, self.heat):
            if part.display:
                part.draw()
        self._draw_happened()
        self._draw_ranks()

    def _share_room(self) -> None:
        """Distribute the lines: charts, then map, then wait tree; events and ranks get the rest."""
        wide = self.size.width >= BESIDE
        left = self.size.height - 2
        charts = next((lines for least, lines in CHARTS if left >= least), 0)
        left -= charts
        self.time.display, self.time.styles.height = charts > 0, max(1, charts)
        self.heat.limit = max(3, left // 2)
        lines = min(self.heat.grid.lines, self.heat.limit)
        self.heat.styles.height = max(1, lines)
        below = left - lines
        self.waits.display = bool(self.model.waits) and below >= TREE
        if self.waits.display:
            tree = max(2, min(self.waits.virtual_size.height, below * 2 // 3))
            self.waits.styles.height = tree
            below -= tree
        self.lines.display = wide or below >= TREE
        self.lower.styles.layout = "horizontal" if wide else "vertical"
        self.happened.styles.height = "1fr" if wide or not self.lines.display else max(2, below // 3)

    def _fitting(self, parts: list[Piece]) -> list[Piece]:
        """Parts side by side; a part that does not fit is left out."""
        pieces: list[Piece] = []
        room = self.size.width
        for text, colour in parts:
            gap = " · " if pieces else " "
            if text and cells(gap) + cells(text) <= room:
                pieces += [(gap, Colour.DIM), (text, colour)]
                room -= cells(gap) + cells(text)
        return pieces

    def _draw_waits(self) -> None:
        verdict = self.model.session.verdict
        nobody = ", no rank clearly stands out" if verdict is not None and verdict.names_nobody else ""
        self.waits.show(wait_tree(self.model.waits), f"which ranks wait for which{nobody}")

    def _draw_happened(self) -> None:
        """Draw recent events, newest first."""
        changes, most = self.model.state.changes, max(1, self.happened.size.height - 1)
        if self._drawn == (changes, changes.total, most):
            return
        self._drawn, listed = (changes, changes.total, most), chosen(changes, most)
        self.happened.show([change_line(change) for change in listed] or [[(" nothing yet", Colour.DIM)]], "events")

    def _draw_ranks(self) -> None:
        """Draw the last lines of suspects, else a list of ranks; ask the nodes for the lines that are shown."""
        named, room = self.model.suspects[:ACCUSED], max(1, self.lines.size.height - 1)
        rows = named or self.model.ranks[: min(LISTED, room - 1)]
        if named:
            self.lines.show(self._last_lines(named, room), f"last lines of {ranks_text([row.number for row in named])}")
        else:
            more = len(self.model.ranks) - len(rows)
            self.lines.show(self._each_rank(rows), f"ranks, and {more:,} more" if more else "ranks")
        self._view_logs(paths_of(rows) if self.display and self.lines.display else set())

    def _last_lines(self, rows: Sequence[RankRow], most: int) -> Content:
        content: Content = [
            [
                (f"{'<' if line.before else ' '}{clock(line.at)} ", Colour.DIM),
                (f"{line.writer} ", Colour.INFO),
                (line.text, _TONES[line.severity]),
            ]
            for line in lines_of(self.model, rows, most)
        ]
        return content or [[(" none was read", Colour.DIM)]]

    def _each_rank(self, rows: Sequence[RankRow]) -> Content:
        """Step, seconds per step and last line of each rank."""
        if not rows:
            return []
        content: Content = [[("  rank     step  s/step  last line", Colour.DIM)]]
        for row, text in zip(rows, last_line_of_each(self.model, rows), strict=True):
            pace, who = seconds_a_step(row), str(row.number) if row.number >= 0 else "?"
            speed = f"{number(last_step(row)):>9}  {UNKNOWN if pace is None else f'{pace:.3g}':>6}  "
            said = fit(text if row.rank.gone_at is None else f"ended  {text}", max(1, self.lines.size.width - 27))
            content.append([(f"{who:>6}", Colour.STRONG), (speed, Colour.TEXT), (said, Colour.DIM)])
        return content

    def _view_logs(self, wanted: set[str]) -> None:
        if wanted != self._viewed:
            self._viewed = wanted
            self.model.session.node_settings.view_logs(wanted)

    def hidden(self) -> None:
        """Stop asking for raw lines."""
        self._view_logs(set())

    # --- keys ----------------------------------------------------------------------------------------------------

    def next_metric(self) -> None:
        """Show the next figure in the cells."""
        self.heat.next_metric()
        self.draw()

    def enter(self) -> Place | None:
        """The node's ranks, with the cursor on the cell's rank."""
        if (current := self.heat.current) is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell else None)

    def here(self) -> Hashable:
        """Indices of node and cell."""
        return self.heat.node_at, self.heat.cell_at

    def select(self, key: Hashable) -> None:
        """Put the cursor on a cell."""
        match key:
            case (int(node), int(cell)):
                heat = self.heat
                heat.moved = heat.moved or (heat.node_at, heat.cell_at) != key
                heat.node_at, heat.cell_at = node, cell

    def selection(self) -> Selection:
        """The rank under the cursor, else its node with all ranks."""
        from tui.panels.facts import node_facts, rank_facts

        if (current := self.heat.current) is None:
            return Selection()
        node, cell = current
        if cell is None:
            return Selection(node.name, ranks_on_node(node), node.name, node_facts(node, self.model))
        row = next((row for row in self.model.ranks if row.node is node and row.number == cell.number), None)
        if row is None:
            return Selection(node.name, set(), node.name, node_facts(node, self.model))
        title = ranks_on([row.number], [node.name])
        return Selection(node.name, {row.number}, title, rank_facts(row, self.model))
