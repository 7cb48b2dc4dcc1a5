"""Panel 1: the whole job over time and at this moment: charts, heat map, who stopped first, what happened."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Container

from hangtop.diagnosis.phrasing import ranks_on
from hangtop.session.state import NodeState
from tui.format import age, plural
from tui.measure import row_of
from tui.panels.base import Fact, Panel, Place
from tui.rolling import Rolling
from tui.scene import RankRow, Scene
from tui.sharing import FEW, Shares, shares
from tui.theme import Tone
from tui.widgets.bar import Bar
from tui.widgets.chart import TimeChart
from tui.widgets.clear import Clear
from tui.widgets.happened import Happened
from tui.widgets.heat import GpuMetric
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Move, Piece
from tui.widgets.onset import Onset

SLOW_CONNECT = 2.0
"""Seconds after which a node that still connects is named."""


class Figures(NamedTuple):
    """A node's part in the line of totals."""

    low: float | None
    high: float | None
    missing: int
    """GPUs that gave no figures."""
    on_cpu: int
    """Ranks in state R."""


class Split(Clear, Container):
    """Holds the heat map and what stands below or beside it."""


class Below(Clear, Container):
    """Holds the ranks and what happened."""


class OverviewPanel(Panel):
    """Time above; the heat map; the ranks in the order in which they stopped, and what happened."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details", "time"})
    WHY_NO_FILTER = "the overview shows the whole job: 2 Ranks, 3 GPUs, 4 Fabric and 6 Nodes can be filtered"

    DEFAULT_CSS = """
    OverviewPanel #split { height: 1fr; }
    OverviewPanel HeatMap { height: auto; }
    OverviewPanel #below { height: 1fr; min-height: 4; margin-top: 1; }
    OverviewPanel Onset { display: none; height: 1fr; }
    OverviewPanel Happened { height: 1fr; width: 1fr; min-height: 4; }
    OverviewPanel.-ranks Onset { display: block; }
    OverviewPanel.-ranks.-beside #below { layout: horizontal; }
    OverviewPanel.-ranks.-beside Onset { width: 3fr; }
    OverviewPanel.-ranks.-beside Happened { width: 2fr; margin-left: 1; }
    OverviewPanel.-map.-beside #split { layout: horizontal; }
    OverviewPanel.-map.-beside HeatMap { width: 1fr; height: 1fr; max-height: 100%; }
    OverviewPanel.-map.-beside #below { width: 62; height: 1fr; margin: 0 0 0 1; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.time = TimeChart(scene)
        self.split = Split(id="split")
        self.heatmap = HeatMap(scene)
        self.below = Below(id="below")
        self.onset = Onset(scene)
        self.changes = Happened(scene)
        self._figures = Rolling(self._figures_of)
        self._shares: tuple[Shares, bool] | None = None

    def compose(self) -> ComposeResult:
        """Totals, time, heat map, ranks, changes."""
        yield self.bar
        yield self.time
        with self.split:
            yield self.heatmap
            with self.below:
                yield self.onset
                yield self.changes

    def draw(self) -> None:
        """Draw all of them."""
        self._share()
        self.time.feed()
        self.heatmap.feed(self._shares[0].heat if self._shares else 10)
        if self.onset.display:
            self.onset.feed()
        self.changes.feed()
        self.bar.show(self._totals())

    def _share(self) -> None:
        """Lay out anew when the size or the kind of job is another."""
        width, height, nodes = self.size.width, self.size.height - 1, len(self.scene.nodes)
        found = shares(width, height, nodes), nodes <= FEW
        if found == self._shares or not self.size:
            return
        self._shares = (part, few) = found
        self.set_class(part.beside, "-beside")
        self.set_class(few and part.onset > 0, "-ranks")
        self.set_class(not few, "-map")
        self.time.display = part.time > 0
        self.time.styles.height = max(1, part.time)
        self.heatmap.styles.max_height = None if not few and part.beside else part.heat
        self.onset.styles.height = "1fr" if part.beside or not part.onset else part.onset
        self.call_after_refresh(self.draw)

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
            pieces += [("   ", Tone.DIM), (f"▲ {plural(missing, 'GPU')} without figures", Tone.BAD)]
        if self.scene.ranks:
            on_cpu = sum(figures.on_cpu for figures in found)
            alive = plural(self.scene.count.ranks_alive, "rank")
            # a look sees state R for an instant: a rank that is not on a CPU then may well be at work on its GPU
            pieces += [(f"   {on_cpu}", Tone.TEXT), (" on CPU now, of ", Tone.DIM), (alive, Tone.TEXT)]
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
            0 if self.scene.stale(node) else [p.state for p in pulses if p is not None].count("R"),
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

    def renew(self) -> None:
        """Add up the totals anew."""
        self._figures.forget()

    def move(self, how: Move) -> None:
        """Move the cell cursor."""
        self.heatmap.move(how)

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
                return ranks_on([row.number], [node.name]), rank_facts(row, self.scene)
        return node.name, node_facts(node, self.scene)
