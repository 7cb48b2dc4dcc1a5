"""Panel 1: the whole job over time and at this moment: charts, heat map, who stopped first, what happened."""

from __future__ import annotations

from collections.abc import Hashable

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import DescendantBlur, DescendantFocus

from hangtop.diagnosis.phrasing import folded, ranks_on, ranks_text
from tui.looks.format import clock
from tui.looks.signs import change_sign
from tui.looks.theme import Colour
from tui.panels.base import Fact, Panel, Place
from tui.panels.story import figures, story
from tui.view_model import ViewModel
from tui.waits import wait_lines
from tui.widgets.chart import TimeChart
from tui.widgets.happened import Happened
from tui.widgets.heatmap import HeatMap
from tui.widgets.lastlines import LastLines
from tui.widgets.lines import Bar, Lines, Piece, width_of
from tui.widgets.oddnodes import OddNodes
from tui.widgets.stoptimes import StopTimes
from tui.widgets.waittree import WaitTree

WAITS_PLACE, HAPPENED_PLACE = "who waits for whom", "what happened"
"""Where in this panel a place can be that is no cell."""
FEW = 16
"""Nodes up to which each rank has a line of its own."""
BESIDE = 110
"""Cells from which on parts stand beside each other."""
CHARTS = ((42, 16), (30, 12), (24, 8), (15, 3))
"""Lines of the charts of a panel with at least so many lines."""
TREE = 11
"""Lines from which on below the map there is room for who waits for whom and for what happened."""


class OverviewPanel(Panel):
    """Time above; the heat map; the ranks in the order in which they stopped, who waits, and what happened."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details", "time", "graph", "view"})
    WHY_NO_FILTER = "the overview shows the whole job: 2 Ranks, 3 GPUs, 4 Fabric and 6 Nodes can be filtered"

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar, self.time, self.heat = Bar(id="summary"), TimeChart(model), HeatMap(model)
        self.stops, self.odd, self.waits = StopTimes(model), OddNodes(model), WaitTree(model)
        self.happened, self.lastlines = Happened(model), LastLines(model)
        self.upper, self.lower = Container(id="upper"), Container(id="lower")
        self._viewed: set[str] = set()
        """Log files whose lines were asked for."""

    def compose(self) -> ComposeResult:
        """What came of the job, time, the map, ranks and waits, changes and last lines."""
        yield self.bar
        yield self.time
        yield self.heat
        with Container(id="below"):
            with self.upper:
                yield self.stops
                yield self.odd
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
        """In the tree of waits the arrows go from box to box, in what happened from line to line."""
        if self.waits.has_focus:
            return self.CAN - {"time", "metric", "view", "details"}
        return self.CAN - {"metric", "view", "details", "node", "ranks"} if self.happened.has_focus else self.CAN

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all that is shown."""
        if not self.size:
            return
        self._share_room()
        self.bar.show(self._fitting(story(self.model)), self._fitting(figures(self.model, self.heat.metric)))
        for part in (self.time, self.heat, self.stops, self.waits, self.happened, self.lastlines):
            if part.display:
                part.draw()
        if self.odd.display:
            self.odd.draw(self.heat.metric.title, self.heat.share)
        self._view_logs(self.lastlines.paths() if self.display and self.lastlines.display else set())

    def _share_room(self) -> None:
        """What tells most gets its lines first: charts, the map, then ranks and waits; what happened has the rest."""
        hangs, few, wide = bool(self.model.waits), len(self.model.nodes) <= FEW, self.size.width >= BESIDE
        left = self.size.height - 2
        charts = next((lines for least, lines in CHARTS if left >= least), 0)
        left -= charts
        alone = self.waits.has_focus
        self.time.display, self.time.styles.height = charts > 0, max(1, charts)
        self.heat.limit = max(3, left // 4 if hangs and few else left // 2 if few or hangs else left * 3 // 5)
        lines = min(self.heat.grid.lines, self.heat.limit)
        self.heat.styles.height = max(1, lines)
        below = left - lines
        self.waits.display = alone or (hangs and (below >= TREE or wide))
        self.heat.display = self.lower.display = not alone
        self.stops.display = few and not alone and (wide or (not hangs and below >= TREE))
        self.odd.display = not few and not alone and (wide or not hangs)
        self.lastlines.display = bool(self.model.accused) and (wide or self.model.crashed) and below >= TREE
        ranked = self.stops.display or self.odd.display
        self.upper.display = ranked or self.waits.display
        # a healthy job's ranks stand beside what happened, those of one that hangs beside who waits
        self.set_class(wide and hangs and not alone, "-rows")
        self.set_class(wide and not hangs, "-columns")
        need = max((len(self.model.ranks) + 2 if few else 8) * ranked, self.waits.lines * self.waits.display)
        listed = max(self.happened.lines, self.lastlines.virtual_size.height * self.lastlines.display)
        room = max(4, min(need, below - max(4, min(listed, below * 2 // 5))))
        self.upper.styles.height = "1fr" if alone or (wide and not hangs) else room

    def _fitting(self, parts: list[list[Piece]]) -> list[Piece]:
        """Parts side by side, each whole or not at all."""
        pieces: list[Piece] = []
        for part in parts:
            gap: list[Piece] = [(" · " if pieces else " ", Colour.DIM)]
            if width_of(pieces) + width_of([*gap, *part]) <= self.size.width:
                pieces += [*gap, *part]
        return pieces

    def _view_logs(self, wanted: set[str]) -> None:
        """Ask for the culprit's lines while they are on view: raw lines cost the nodes something."""
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

    def next_view(self, step: int) -> str:
        """Come closer (-1) or go farther (1); returns what is shown then."""
        told = self.heat.next_zoom(step)
        self.draw()
        return told

    def show_waits(self) -> None:
        """Put the cursor into who waits for whom."""
        self.waits.display = True
        self.waits.focus()

    def leave_waits(self) -> bool:
        """Leave that; says whether the cursor was there."""
        return self.waits.has_focus and self.leave()

    def show_happened(self) -> None:
        """Put the cursor into what happened; leave it again."""
        if not (self.happened.has_focus and self.leave()):
            self.lower.display = True
            self.happened.focus()

    def leave(self) -> bool:
        """Go back to the map."""
        inside = self.waits.has_focus or self.happened.has_focus
        if inside:
            self.heat.display = True
            self.heat.focus()
        return inside

    def enter(self) -> Place | None:
        """To what a box stands for; to the moment of what happened; or to the node's ranks, standing on the cell's."""
        if self.waits.has_focus:
            return self._behind_box()
        if self.happened.has_focus:
            change = self.happened.change
            if change is None:
                return None
            what = f"{clock(change.at, millis=False)} {change_sign(change.kind).label or change.node}".rstrip()
            return Place(self.NAME, "", (HAPPENED_PLACE, change.at), what, change.at)
        if (current := self.heat.current) is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell else None)

    def _behind_box(self) -> Place | None:
        """Ranks that wait in an operation that a source names lead to its group, others to a stack that was taken."""
        box, state = self.waits.box, self.model.state
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
        """The box, the line, or the cell."""
        if self.waits.has_focus:
            return WAITS_PLACE, self.waits.box.ranks[0] if self.waits.box and self.waits.box.ranks else -1
        if self.happened.has_focus:
            return HAPPENED_PLACE, self.happened.change.at if self.happened.change else 0.0
        return self.heat.node_at, self.heat.cell_at

    def select(self, key: Hashable) -> None:
        """Stand on a box, a line or a cell."""
        match key:
            case (str(where), int() | float() as what) if where == HAPPENED_PLACE:
                self.happened.focus()
                self.happened.select(what)
            case (str(where), int(rank)) if where == WAITS_PLACE:
                self.show_waits()
                self.waits.draw()
                self.waits.select_rank(rank)
            case (int(node), int(cell)):
                heat = self.heat
                heat.moved = heat.moved or (heat.node_at, heat.cell_at) != key
                heat.node_at, heat.cell_at = node, cell

    def node(self) -> str | None:
        """Node of the box, or under the cursor."""
        if self.waits.has_focus:
            return next(iter(self.waits.box.nodes if self.waits.box else ()), None)
        return self.heat.current[0].name if self.heat.current else None

    def chosen_ranks(self) -> set[int]:
        """Ranks of the box, or under the cursor."""
        if self.waits.has_focus:
            return set(self.waits.box.ranks if self.waits.box else ())
        if (current := self.heat.current) is None:
            return set()
        node, cell = current
        if cell is None:
            return {rank.process.rank for rank in node.ranks.values() if rank.gone_at is None}
        return set() if cell.number is None else {cell.number}

    def text(self) -> str:
        """Who waits for whom, or what happened, where the cursor is in it."""
        if self.happened.has_focus:
            return self.happened.text()
        tree = wait_lines(self.model.waits) if self.waits.has_focus else []
        return "\n".join(f"{one.head}{one.text}" for one in tree)

    def details(self) -> tuple[str, list[Fact]] | None:
        """The rank under the cursor, or its node."""
        from tui.panels.facts import node_facts, rank_facts

        if (current := self.heat.current) is None:
            return None
        node, cell = current
        for row in self.model.ranks:
            if cell is not None and row.node is node and row.number == cell.number:
                return ranks_on([row.number], [node.name]), rank_facts(row, self.model)
        return node.name, node_facts(node, self.model)
