"""Panel 1: the whole job over time and at this moment: charts, heat map, who stopped first, what happened."""

from __future__ import annotations

from collections.abc import Hashable

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import DescendantBlur, DescendantFocus

from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from hangtop.session.state.job_state import NodeState
from tui.looks.format import age, clock, plural
from tui.looks.signs import change_sign
from tui.looks.theme import Tone
from tui.panels.base import Fact, Panel, Place
from tui.panels.story import story
from tui.scene import Scene
from tui.waits import letter_of, wait_lines
from tui.widgets.chart import TimeChart
from tui.widgets.happened import Happened
from tui.widgets.heatgrid import HeatGrid
from tui.widgets.lastlines import LastLines
from tui.widgets.lines import Bar, Lines, Piece, width_of
from tui.widgets.metrics import WAITS, metrics_of, values_of
from tui.widgets.oddnodes import OddNodes
from tui.widgets.onset import Onset
from tui.widgets.waittree import WaitTree

WAITS_PLACE, HAPPENED_PLACE = "who waits for whom", "what happened"
"""Where in this panel a place can be that is no cell."""
FEW = 16
"""Nodes up to which each rank has a line of its own."""
BESIDE = 110
"""Cells from which on parts stand beside each other."""
CHARTS = ((42, 16), (30, 12), (24, 8), (15, 3))
"""Lines of the charts of a panel with at least so many lines."""
GRAPH = 11
"""Lines from which on below the map there is room for who waits for whom and for what happened."""
SLOW_CONNECT = 2.0
"""Seconds after which a node that still connects is named."""


class OverviewPanel(Panel):
    """Time above; the heat map; the ranks in the order in which they stopped, who waits, and what happened."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details", "time", "graph", "view"})
    WHY_NO_FILTER = "the overview shows the whole job: 2 Ranks, 3 GPUs, 4 Fabric and 6 Nodes can be filtered"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar, self.time, self.heat = Bar(), TimeChart(scene), HeatGrid(scene)
        self.onset, self.odd, self.waits = Onset(scene), OddNodes(scene, self.heat.share), WaitTree(scene)
        self.changes, self.lastlines = Happened(scene), LastLines(scene)
        self.below, self.upper, self.lower = Container(id="below"), Container(id="upper"), Container(id="lower")
        self._viewed: set[str] = set()
        """Log files whose lines were asked for."""

    def compose(self) -> ComposeResult:
        """What came of the job, time, the map, ranks and waits, changes and last lines."""
        yield self.bar
        yield self.time
        yield self.heat
        with self.below:
            with self.upper:
                yield self.onset
                yield self.odd
                yield self.waits
            with self.lower:
                yield self.changes
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
        return self.CAN - {"metric", "view", "details", "node", "ranks"} if self.changes.has_focus else self.CAN

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all that is shown."""
        if not self.size:
            return
        self._share_room()
        self.bar.show(*filter(None, (self._told(story(self.scene)), self._told(self._totals()))))
        for part in (self.time, self.heat, self.onset, self.waits, self.changes, self.lastlines):
            if part.display:
                part.feed()
        if self.odd.display:
            self.odd.feed(self.heat.metric.title)
        self._view_logs()

    def _share_room(self) -> None:
        """What tells most gets its lines first: charts, the map, then ranks and waits; what happened has the rest."""
        hangs, few, wide = bool(self.scene.waits), len(self.scene.nodes) <= FEW, self.size.width >= BESIDE
        left = self.size.height - 2
        charts = next((lines for least, lines in CHARTS if left >= least), 0)
        left -= charts
        alone = self.waits.has_focus
        self.bar.styles.height = 2
        self.time.display, self.time.styles.height = charts > 0, max(1, charts)
        limit = max(3, left // 4 if hangs and few else left // 2 if few or hangs else left * 3 // 5)
        self.heat.limit = limit
        self.heat.styles.height = max(1, min(self.heat.lines, limit))
        below = left - min(self.heat.lines, limit)
        self.waits.display = alone or (hangs and (below >= GRAPH or wide))
        self.heat.display = self.lower.display = not alone
        self.onset.display = few and not alone and (wide or (not hangs and below >= GRAPH))
        self.odd.display = not few and not alone and (wide or not hangs)
        self.lastlines.display = bool(self.scene.accused) and (wide or self.scene.crashed) and below >= GRAPH
        ranked = self.onset.display or self.odd.display
        self.upper.display = ranked or self.waits.display
        # a healthy job's ranks stand beside what happened, those of one that hangs beside who waits
        self.set_class(wide and hangs and not alone, "-rows")
        self.set_class(wide and not hangs, "-columns")
        need = max((len(self.scene.ranks) + 2 if few else 8) * ranked, self.waits.lines * self.waits.display)
        room = below if alone else max(4, min(need, below * 3 // 5))
        self.upper.styles.height = "1fr" if alone or (wide and not hangs) else room

    def _told(self, parts: list[list[Piece]]) -> list[Piece]:
        """Parts side by side, each whole or not at all."""
        pieces: list[Piece] = []
        for part in parts:
            gap: list[Piece] = [(" · " if pieces else " ", Tone.DIM)]
            if width_of(pieces) + width_of([*gap, *part]) <= self.size.width:
                pieces += [*gap, *part]
        return pieces

    def _totals(self) -> list[list[Piece]]:
        """The chosen figure from least to most, or the letters of who waits; what is missing."""
        scene, metric = self.scene, self.heat.metric
        if not (scene.ranks or scene.gpus):
            return [[("no GPU and no rank is known", Tone.STRONG)], *self._connecting()]
        told: list[list[Piece]] = []
        if metric is WAITS:
            told.append([("who waits", Tone.STRONG)])
            for place, box in enumerate(scene.waits[:4]):
                who = ranks_text(box.ranks) if len(box.ranks) < 4 else plural(len(box.ranks), "rank")
                told.append([(f"{letter_of(place)} ", Tone.BAD if box.blamed else Tone.STRONG), (who, Tone.TEXT)])
        else:
            values = [value for node in scene.nodes for value in self._values(node)]
            least, most = (metric.text(min(values)), metric.text(max(values))) if values else ("–", "–")
            span = f"all {least}" if least == most else f"{least} to {most}"
            told.append([(f"{'GPU ' if metric.of_gpu else ''}{metric.title} ", Tone.STRONG),
                         (f"{span if values else 'not known'} {metric.unit}", Tone.TEXT)])  # fmt: skip
        missing = sum(gpu.looks.newest is None or gpu.fault is not None for _, gpu in scene.gpus)
        if missing:
            told.append([(f"▲ {plural(missing, 'GPU')} without figures", Tone.BAD)])
        return [*told, *self._connecting()]

    def _values(self, node: NodeState) -> list[float]:
        if self.scene.stale(node) or self.heat.metric not in metrics_of(node):
            return []
        return values_of(self.scene, node, self.heat.metric)

    def _connecting(self) -> list[list[Piece]]:
        """N of M, and who is slow."""
        count, scene = self.scene.count, self.scene
        if not count.nodes_asking or scene.session.verdict is None:
            return []  # until there is a verdict that is what the first line says
        slow = [node for node in scene.nodes if node.link == "connecting" and scene.now - node.since > SLOW_CONNECT]
        told: list[Piece] = [("○ connecting ", Tone.DIM), (f"{count.nodes_up:,} of {count.nodes:,} nodes", Tone.TEXT)]
        if slow:
            worst = min(slow, key=lambda node: node.since)
            more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
            waited = age(scene.now - worst.since)
            told.append((f", waiting {waited} for {scene.names.of(worst.name)}{more}", Tone.WARN))
        return [told]

    def _view_logs(self) -> None:
        """Ask for the culprit's lines while they are on view."""
        wanted = self.lastlines.paths() if self.display and self.lastlines.display else set()
        if wanted != self._viewed:
            self._viewed = wanted
            self.scene.session.node_settings.view_logs(wanted)

    def hidden(self) -> None:
        """Raw lines cost the nodes something: none are wanted now."""
        if self._viewed:
            self._viewed = set()
            self.scene.session.node_settings.view_logs(set())

    def renew(self) -> None:
        """Read what was written until then."""
        self.lastlines.again()

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
        if not (self.changes.has_focus and self.leave()):
            self.lower.display = True
            self.changes.focus()

    def leave(self) -> bool:
        """Go back to the map."""
        inside = self.waits.has_focus or self.changes.has_focus
        if inside:
            self.heat.display = True
            self.heat.focus()
        return inside

    def enter(self) -> Place | None:
        """To what a box stands for; to the moment of what happened; or to the node's ranks, standing on the cell's."""
        if self.waits.has_focus:
            from tui.panels.opening import opened  # with what the diagnosis is made of: not before the first frame

            return None if self.waits.box is None else opened(self.waits.box, self.scene)
        if self.changes.has_focus:
            change = self.changes.current
            if change is None:
                return None
            what = f"{clock(change.at, millis=False)} {change_sign(change.kind).label or change.node}".rstrip()
            return Place(self.NAME, "", (HAPPENED_PLACE, change.at), what, change.at)
        if (current := self.heat.current) is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell else None)

    def here(self) -> Hashable:
        """The box, the line, or the cell."""
        if self.waits.has_focus:
            return WAITS_PLACE, self.waits.box.ranks[0] if self.waits.box and self.waits.box.ranks else -1
        if self.changes.has_focus:
            return HAPPENED_PLACE, self.changes.current.at if self.changes.current else 0.0
        return self.heat.node_at, self.heat.cell_at

    def select(self, key: Hashable) -> None:
        """Stand on a box, a line or a cell."""
        match key:
            case (str(where), int() | float() as what) if where == HAPPENED_PLACE:
                self.changes.focus()
                self.changes.select(what)
            case (str(where), int(rank)) if where == WAITS_PLACE:
                self.show_waits()
                self.waits.feed()
                self.waits.select(rank)
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
        if self.changes.has_focus:
            return self.changes.text()
        return (
            "\n".join(f"{one.head}{one.text}" for one in wait_lines(self.scene.waits)) if self.waits.has_focus else ""
        )

    def details(self) -> tuple[str, list[Fact]] | None:
        """The rank under the cursor, or its node."""
        from tui.panels.facts import node_facts, rank_facts

        if (current := self.heat.current) is None:
            return None
        node, cell = current
        for row in self.scene.ranks:
            if cell is not None and row.node is node and row.number == cell.number:
                return ranks_on([row.number], [node.name]), rank_facts(row, self.scene)
        return node.name, node_facts(node, self.scene)
