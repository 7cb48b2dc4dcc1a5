"""Panel 1: the heat map of the whole job, and what changed lately."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.app import ComposeResult
from textual.containers import Container
from textual.strip import Strip

from hangtop.session.state import Change, NodeState
from tui.changes import told
from tui.format import age, clock, plural
from tui.measure import row_of
from tui.panels.base import Fact, Panel, Place
from tui.rolling import Rolling
from tui.scene import RankRow, Scene
from tui.theme import Tone
from tui.widgets.bar import Bar
from tui.widgets.clear import Clear
from tui.widgets.heat import GpuMetric
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Lines, Move, Piece, strip_of

if TYPE_CHECKING:
    from tui.app import HangtopApp

WIDE = 150
"""Cells from which on the changes stand beside the heat map."""
SLOW_CONNECT = 2.0
"""Seconds after which a node that still connects is named."""


class Figures(NamedTuple):
    """A node's part in the line of totals."""

    low: float | None
    high: float | None
    missing: int
    """GPUs without a row."""
    running: int
    """Ranks in state R."""


class Changes(Lines):
    """What changed lately, the newest first."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="changes")
        self.scene = scene
        self._told: list[Change] = []
        self._newest: tuple[Change | None, int] = (None, 0)
        """The last change that was drawn, and in how many lines all were."""

    def feed(self) -> None:
        """Take the latest changes and draw."""
        changes, height = self.scene.state.changes, self.size.height
        newest = changes[-1] if changes else None
        if newest is not self._newest[0] or height != self._newest[1]:
            self._newest = newest, height
            self._told = told(reversed(changes), max(1, height - 1))
            self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then one change a line."""
        if y == 0:
            title = " what changed lately "
            return strip_of([(title, Tone.DIM), ("─" * (width - len(title) - 1), Tone.DIM)], width, self.ink)
        if y - 1 >= len(self._told):
            text = "nothing yet" if y == 1 else ""
            return strip_of([(f" {text}", Tone.DIM)], width, self.ink)
        change = self._told[y - 1]
        pieces: list[Piece] = [
            (f" {clock(change.at, millis=False)} ", Tone.DIM),
            (f"{change.node} ", Tone.INFO),
            (change.text, Tone.TEXT),
        ]
        return strip_of(pieces, width, self.ink)


class Split(Clear, Container):
    """Holds both."""


class OverviewPanel(Panel):
    """Heat map above (or beside) the changes."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details"})

    DEFAULT_CSS = """
    OverviewPanel #split { height: 1fr; }
    OverviewPanel HeatMap { height: auto; max-height: 75%; }
    OverviewPanel Changes { height: 1fr; min-height: 4; margin-top: 1; }
    OverviewPanel.-wide #split { layout: horizontal; }
    OverviewPanel.-wide HeatMap { width: 1fr; height: 1fr; max-height: 100%; }
    OverviewPanel.-wide Changes { width: 62; height: 1fr; margin: 0 0 0 1; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.split = Split(id="split")
        self.heatmap = HeatMap(scene)
        self.changes = Changes(scene)
        self._figures = Rolling(self._figures_of)

    def compose(self) -> ComposeResult:
        """Totals, heat map, changes."""
        yield self.bar
        with self.split:
            yield self.heatmap
            yield self.changes

    def on_resize(self) -> None:
        """Beside each other when there is room."""
        self.set_class(self.size.width >= WIDE, "-wide")
        super().on_resize()

    def draw(self) -> None:
        """Draw all three."""
        beside = self.has_class("-wide")
        self.heatmap.feed(self.split.size.height - (0 if beside else 6))
        self.changes.feed()
        self.bar.show(self._totals())

    def _totals(self) -> list[Piece]:
        metric, found = self.heatmap.metric, self._figures.turn(self.scene.nodes)
        whose = "GPU " if isinstance(metric, GpuMetric) else ""
        of = "" if whose else " of the ranks"
        pieces: list[Piece] = [(f" {whose}{metric.title}{of}", Tone.STRONG), (f" {metric.unit}  ", Tone.DIM)]
        lows = [figures.low for figures in found if figures.low is not None]
        highs = [figures.high for figures in found if figures.high is not None]
        if lows and highs:
            pieces += [("from ", Tone.DIM), (f"{min(lows):.0f}", Tone.TEXT)]
            pieces += [(" to ", Tone.DIM), (f"{max(highs):.0f}", Tone.TEXT)]
        missing = sum(figures.missing for figures in found)
        if missing:
            pieces += [("   ", Tone.DIM), (f"▲ {plural(missing, 'GPU')} without a row", Tone.BAD)]
        if self.scene.ranks:
            running = sum(figures.running for figures in found)
            alive = plural(self.scene.count.ranks_alive, "rank")
            pieces += [("   running now ", Tone.DIM), (f"{running} of {alive}", Tone.TEXT)]
        return [*pieces, *self._connecting()]

    def _figures_of(self, node: NodeState) -> Figures:
        metric = self.heatmap.metric_of(node)
        if type(metric) is not type(self.heatmap.metric):
            values = []
        elif isinstance(metric, GpuMetric):
            values = [value for gpu in node.gpus.values() if (value := metric.value(gpu)) is not None]
        else:
            rows = [RankRow(node, rank) for rank in node.ranks.values() if rank.gone_at is None]
            values = [value for row in rows if (value := metric.value(row, self.scene.interval)) is not None]
        pulses = [rank.looks.newest for rank in node.ranks.values() if rank.gone_at is None]
        return Figures(
            min(values, default=None),
            max(values, default=None),
            [row_of(gpu) for gpu in node.gpus.values()].count(None),
            [pulse.state for pulse in pulses if pulse is not None].count("R"),
        )

    def _connecting(self) -> list[Piece]:
        """N of M, and who is slow."""
        count = self.scene.count
        if not count.nodes_asking:
            return []
        slow = [
            node
            for node in self.scene.nodes
            if node.link == "connecting" and node.seen_at is None and self.scene.now - node.since > SLOW_CONNECT
        ]
        pieces: list[Piece] = [("   ○ connecting ", Tone.DIM), (f"{count.nodes_up} of {count.nodes} nodes", Tone.TEXT)]
        if slow:
            worst = min(slow, key=lambda node: node.since)
            more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
            pieces.append((f", waiting {age(self.scene.now - worst.since)} for {worst.name}{more}", Tone.WARN))
        return pieces

    def move(self, how: Move) -> None:
        """Move the cell cursor."""
        self.heatmap.move(how)

    async def on_heat_map_entered(self, event: HeatMap.Entered) -> None:
        """A cell was clicked twice."""
        event.stop()
        await cast("HangtopApp", self.app).action_do("enter")

    def next_metric(self, step: int) -> None:
        """Show another figure in the cells."""
        self.heatmap.figure += step
        self._figures.forget()
        self.draw()

    def enter(self) -> Place | None:
        """To the node's ranks, standing on the cell's."""
        current = self.heatmap.current
        if current is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell else None)

    def here(self) -> Hashable:
        """The cell."""
        return self.heatmap.node_at, self.heatmap.cell_at

    def select(self, key: Hashable) -> None:
        """Stand on a cell."""
        if isinstance(key, tuple) and all(isinstance(part, int) for part in key):
            self.heatmap.node_at, self.heatmap.cell_at = key

    def node(self) -> str | None:
        """Node under the cursor."""
        current = self.heatmap.current
        return current[0].name if current else None

    def chosen_ranks(self) -> set[int]:
        """Rank under the cursor."""
        current = self.heatmap.current
        number = current[1].number if current and current[1] else None
        return set() if number is None else {number}

    def details(self) -> tuple[str, list[Fact]] | None:
        """The rank under the cursor, or its node."""
        from tui.panels.facts import node_facts, rank_facts

        current = self.heatmap.current
        if current is None:
            return None
        node, cell = current
        for row in self.scene.ranks:
            if cell is not None and row.node is node and row.number == cell.number:
                return f"rank {row.number} on {node.name}", rank_facts(row, self.scene)
        return node.name, node_facts(node, self.scene)
