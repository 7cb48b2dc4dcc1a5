"""Panel 1: the whole job over time and at this moment: charts, heat map, who waits, what happened."""

from __future__ import annotations

from collections.abc import Hashable

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import DescendantBlur, DescendantFocus

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import folded, ranks_on, ranks_text
from tui.logs.changes import chosen
from tui.looks.format import clock
from tui.looks.text import cells
from tui.looks.theme import Colour
from tui.ordering.rows import RankRow
from tui.panels.base import Fact, Panel, Place
from tui.panels.story import change_line, figures, story
from tui.texts.lastlines import lines_of, paths_of
from tui.texts.waits import wait_items
from tui.view_model import ViewModel
from tui.widgets.chart import TimeChart
from tui.widgets.heatmap import HeatMap
from tui.widgets.itemlist import ItemList
from tui.widgets.lines import Bar, Lines, Move, Piece, text_of
from tui.widgets.textview import TextView

WAITS_PLACE = "who waits for whom"
"""Where in this panel a place can be that is no cell."""
BESIDE = 110
"""Cells from which on parts stand beside each other."""
CHARTS = ((42, 16), (30, 12), (24, 8), (15, 3))
"""Lines of the charts of a panel with at least so many lines."""
TREE = 6
"""Lines from which on below the map there is room for who waits for whom and for what happened."""
ACCUSED = 4
"""Ranks whose last lines are shown."""
_TONES = (Colour.TEXT, Colour.WARN, Colour.BAD)


class OverviewPanel(Panel):
    """Time above; the heat map; who waits for whom, what happened, and last lines of ranks."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details", "time"})
    WHY_NO_FILTER = "the overview shows the whole job: 2 Ranks, 3 GPUs, 4 Fabric and 6 Nodes can be filtered"

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar, self.time, self.heat = Bar(id="summary"), TimeChart(model), HeatMap(model)
        self.waits = ItemList("waits", "nobody waits for anybody, as far as is known", titled=True)
        self.happened, self.lastlines = TextView(id="changes", hint="n N"), TextView(id="lastlines", hint="5 Logs")
        self.happened.can_focus = self.lastlines.can_focus = False
        self.lower = Container(id="lower")
        self._viewed: set[str] = set()
        """Log files whose lines were asked for."""

    def compose(self) -> ComposeResult:
        """What came of the job, time, the map, waits, changes and last lines."""
        yield self.bar
        yield self.time
        yield self.heat
        yield self.waits
        with self.lower:
            yield self.happened
            yield self.lastlines

    @property
    def main(self) -> Lines:
        """The map."""
        return self.heat

    @property
    def can(self) -> frozenset[str]:
        """In the tree of waits the arrows go from line to line."""
        return self.CAN - {"time", "metric", "details"} if self.waits.has_focus else self.CAN

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all that is shown."""
        if not self.size:
            return
        told = self._lines_wanted
        self._share_room(lines_of_ranks=bool(told))
        self.bar.show(self._fitting(story(self.model)), self._fitting(figures(self.model, self.heat.metric)))
        for part in (self.time, self.heat):
            if part.display:
                part.draw()
        self._draw_waits()
        self._draw_happened()
        self._draw_lastlines(told if self.lastlines.display else [])

    def _share_room(self, *, lines_of_ranks: bool) -> None:
        """What tells most gets its lines first: charts, the map, then who waits; what happened has the rest."""
        hangs, wide, alone = bool(self.model.waits), self.size.width >= BESIDE, self.waits.has_focus
        left = self.size.height - 2
        charts = next((lines for least, lines in CHARTS if left >= least), 0)
        left -= charts
        self.time.display, self.time.styles.height = charts > 0, max(1, charts)
        self.heat.limit = max(3, left // 2)
        lines = min(self.heat.grid.lines, self.heat.limit)
        self.heat.styles.height = max(1, lines)
        below = left - lines
        self.waits.display = alone or (hangs and below >= TREE)
        self.heat.display = self.lower.display = not alone
        self.waits.styles.height = "1fr" if alone else max(2, min(self.waits.lines, below * 2 // 3))
        self.lastlines.display = (wide or self.model.crashed) and below >= TREE and lines_of_ranks
        self.lower.styles.layout = "horizontal" if wide else "vertical"

    def _fitting(self, parts: list[Piece]) -> list[Piece]:
        """Parts side by side, each whole or not at all."""
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
        nobody = "nobody is surely the odd one " if verdict is not None and verdict.names_nobody else ""
        more = " more than fits ─" if self.waits.lines > self.waits.size.height else ""
        keys = "arrows, Enter opens, Esc leaves" if self.waits.has_focus else "W"
        self.waits.title = f" who waits for whom {nobody}", f"{more} {keys} ─"
        self.waits.feed(wait_items(self.model.waits, max(3, self.waits.room // 3)))

    def _draw_happened(self) -> None:
        """What happened, the newest first."""
        most = max(1, self.happened.size.height - 1)
        listed = chosen(self.model.state.changes, most, self.model.state.started)
        self.happened.show([change_line(one) for one in listed] or [[(" nothing yet", Colour.DIM)]], "what happened")

    @property
    def _lines_wanted(self) -> list[RankRow]:
        """Ranks whose last lines are shown: those that the verdict accuses, else the one under the map's cursor."""
        if accused := self.model.accused[:ACCUSED]:
            return accused
        row = self._row
        return [] if row is None else [row]

    @property
    def _row(self) -> RankRow | None:
        """The rank under the map's cursor."""
        node, cell = self.heat.current or (None, None)
        if cell is None or cell.number is None:
            return None
        return next((row for row in self.model.ranks if row.node is node and row.number == cell.number), None)

    def _draw_lastlines(self, rows: list[RankRow]) -> None:
        """Last lines cost the nodes something, and are asked for while they are on view."""
        if rows:
            content = [
                [
                    (f"{'<' if line.before else ' '}{clock(line.at, millis=False)} ", Colour.DIM),
                    (f"{line.writer} ", Colour.INFO),
                    (line.text, _TONES[line.severity]),
                ]
                for line in lines_of(self.model, rows, max(1, self.lastlines.size.height - 1))
            ]
            who = ranks_text([row.number for row in rows])
            self.lastlines.show(content or [[(" none was read", Colour.DIM)]], f"last lines of {who}")
        self._view_logs(paths_of(rows) if self.display else set())

    def _view_logs(self, wanted: set[str]) -> None:
        if wanted != self._viewed:
            self._viewed = wanted
            self.model.session.node_settings.view_logs(wanted)

    def hidden(self) -> None:
        """No raw lines are wanted now."""
        self._view_logs(set())

    @on(DescendantFocus)
    @on(DescendantBlur)
    def lay_out(self) -> None:
        """The tree of waits has all the room while the cursor is in it."""
        self.call_after_refresh(self.draw)

    # --- keys ----------------------------------------------------------------------------------------------------

    def next_metric(self, step: int) -> None:
        """Show another figure in the cells."""
        self.heat.next_metric(step)
        self.draw()

    def show_waits(self) -> None:
        """Put the cursor into who waits for whom."""
        self.waits.display = True
        self.waits.focus()

    def leave_waits(self) -> bool:
        """Leave that; says whether the cursor was there."""
        return self.waits.has_focus and self.leave()

    def leave(self) -> bool:
        """Go back to the map."""
        inside = self.waits.has_focus
        if inside:
            self.heat.display = True
            self.heat.focus()
        return inside

    def move(self, how: Move) -> None:
        """Move the cursor; in the tree to the left whom a box waits for, to the right who waits for it."""
        if self.waits.has_focus and how in ("left", "right"):
            how = "up" if how == "left" else "down"
        super().move(how)

    def enter(self) -> Place | None:
        """To what a box stands for, or to the node's ranks, standing on the cell's."""
        if self.waits.has_focus:
            return self._behind_box()
        if (current := self.heat.current) is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell else None)

    @property
    def _box(self) -> WaitBox | None:
        """The verdict's box under the cursor."""
        item, boxes = self.waits.current, self.model.waits
        return boxes[item.key] if item and isinstance(item.key, int) and 0 <= item.key < len(boxes) else None

    def _behind_box(self) -> Place | None:
        """Ranks that wait in an operation that a source names lead to its group, others to a stack that was taken."""
        box, state = self._box, self.model.state
        if box is None or not box.ranks:
            return None
        ranks, what = sorted(box.ranks), ranks_text(box.ranks)
        told = " " in box.operation  # with its number or its group: of a bare one frames alone tell
        if told and not box.blamed and (state.recorders or state.progress or state.ras):
            return Place("collectives", "", ranks[0], what)
        rank = next((rank for rank in ranks if rank in self.model.dumped), None)
        if rank is not None:
            return Place("stacks", "", rank, what)
        return Place("ranks", f"rank={folded(ranks)}", ranks[0])

    def here(self) -> Hashable:
        """The box, or the cell."""
        if self.waits.has_focus:
            return WAITS_PLACE, self._box.ranks[0] if self._box and self._box.ranks else -1
        return self.heat.node_at, self.heat.cell_at

    def select(self, key: Hashable) -> None:
        """Stand on a box, or a cell."""
        match key:
            case (str(), int(rank)):
                self.show_waits()
                self._draw_waits()
                self.waits.select_rank(rank)
            case (int(node), int(cell)):
                heat = self.heat
                heat.moved = heat.moved or (heat.node_at, heat.cell_at) != key
                heat.node_at, heat.cell_at = node, cell

    def node(self) -> str | None:
        """Node of the box, or under the cursor."""
        if self.waits.has_focus:
            return next(iter(self._box.nodes if self._box else ()), None)
        return self.heat.current[0].name if self.heat.current else None

    def chosen_ranks(self) -> set[int]:
        """Ranks of the box, or under the cursor."""
        if self.waits.has_focus:
            return set(self._box.ranks if self._box else ())
        if (current := self.heat.current) is None:
            return set()
        node, cell = current
        if cell is None:
            return {rank.process.rank for rank in node.ranks.values() if rank.gone_at is None}
        return set() if cell.number is None else {cell.number}

    def text(self) -> str:
        """Who waits for whom, where the cursor is in it."""
        items = self.waits.items if self.waits.has_focus else ()
        return text_of([line for item in items for line in item.lines])

    def details(self) -> tuple[str, list[Fact]] | None:
        """The rank under the cursor, or its node."""
        from tui.panels.facts import node_facts, rank_facts

        if (current := self.heat.current) is None:
            return None
        node, _ = current
        if (row := self._row) is not None:
            return ranks_on([row.number], [node.name]), rank_facts(row, self.model)
        return node.name, node_facts(node, self.model)
