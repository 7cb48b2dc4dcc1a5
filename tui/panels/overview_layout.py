"""Where the parts of the overview stand: as :mod:`tui.sharing` shares the lines."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from hangtop.session.state.job_state import NodeState
from tui.panels.base import Panel
from tui.panels.overview_words import Totals
from tui.scene import Scene
from tui.sharing import Shares
from tui.widgets.bar import Bar
from tui.widgets.chart import TimeChart
from tui.widgets.clear import Clear
from tui.widgets.happened import Happened
from tui.widgets.heatmap import HeatMap
from tui.widgets.lastlines import LastLines
from tui.widgets.mosaic import Mosaic
from tui.widgets.nodecard import NodeCard, OddNodes
from tui.widgets.onset import Onset
from tui.widgets.waitmap import WaitMap


class Split(Clear, Container):
    """Holds the heat map and what stands below or beside it."""


class LayoutPart(Clear, Container):
    """Holds some of it: the maps; all beside or below them; ranks and waits; what happened and the logs."""


class OverviewParts(Panel):
    """Has the parts and arranges them; what they show and what keys do is the overview's."""

    DEFAULT_CSS = """
    OverviewParts #split { height: 1fr; }
    OverviewParts #maps { height: auto; }
    OverviewParts HeatMap { height: auto; }
    OverviewParts Mosaic { height: auto; }
    OverviewParts #below { height: 1fr; min-height: 4; }
    OverviewParts #upper { height: auto; }
    OverviewParts #lower { height: 1fr; min-height: 4; }
    OverviewParts Onset { height: 1fr; }
    OverviewParts #stopped { display: none; margin: 1 0; }
    OverviewParts Happened { height: 1fr; width: 1fr; min-height: 4; }
    OverviewParts LastLines { height: 1fr; width: 1fr; }
    OverviewParts WaitMap { height: 1fr; width: 1fr; }
    OverviewParts.-ranks.-beside #below { layout: horizontal; }
    OverviewParts.-ranks.-beside #upper { width: 3fr; height: 1fr; }
    OverviewParts.-ranks.-beside #lower { width: 2fr; height: 1fr; margin-left: 1; }
    OverviewParts.-ranks.-beside.-waits #below { layout: vertical; }
    OverviewParts.-ranks.-beside.-waits #upper { layout: horizontal; width: 1fr; }
    OverviewParts.-ranks.-beside.-waits #lower { layout: horizontal; width: 1fr; margin: 0; }
    OverviewParts.-ranks.-beside.-waits WaitMap { margin-left: 1; }
    OverviewParts.-ranks.-beside.-waits LastLines { margin-left: 1; }
    OverviewParts.-side #split { layout: horizontal; }
    OverviewParts.-side #maps { width: 1fr; height: 1fr; }
    OverviewParts.-side HeatMap { height: 1fr; max-height: 100%; }
    OverviewParts.-side Mosaic { height: 1fr; }
    OverviewParts.-side.-stopped Mosaic { height: auto; }
    OverviewParts.-side.-stopped #stopped { display: block; }
    OverviewParts.-side #below { width: 62; height: 1fr; margin: 0 0 0 1; }
    OverviewParts.-side.-mosaic #below { width: 50; }
    OverviewParts.-row #below { layout: horizontal; }
    OverviewParts.-row #upper, OverviewParts.-row NodeCard { width: 1fr; height: 1fr; margin-right: 1; }
    OverviewParts.-row #lower { width: 1fr; }
    OverviewParts.-graph #split { layout: vertical; }
    OverviewParts.-graph #below { layout: vertical; width: 1fr; margin: 0; }
    OverviewParts.-graph.-ranks.-beside.-waits #upper { width: 1fr; height: 1fr; }
    OverviewParts.-graph #upper { width: 1fr; height: 1fr; }
    OverviewParts.-graph WaitMap { margin: 0; }
    OverviewParts.-graph.-ranks.-beside.-waits WaitMap { margin: 0; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.time = TimeChart(scene)
        self.split, self.maps = Split(id="split"), LayoutPart(id="maps")
        self.below, self.upper, self.lower = LayoutPart(id="below"), LayoutPart(id="upper"), LayoutPart(id="lower")
        self.heatmap = HeatMap(scene)
        self.totals = Totals(scene, self.heatmap)
        self.mosaic = Mosaic(scene, self.heatmap, self.share_of)
        self.odd, self.card = OddNodes(scene), NodeCard(scene)
        self.onset, self.waitmap = Onset(scene), WaitMap(scene)
        self.stopped = Onset(scene, "stopped")
        """The same below the map of a larger job, where that leaves room."""
        self.changes, self.lastlines = Happened(scene), LastLines(scene)
        self.view: int | None = None
        """The view that was chosen; None is what shows a job of this size best."""

    def compose(self) -> ComposeResult:
        """Totals, time, the map, the node under the cursor, ranks and waits, changes and logs."""
        yield self.bar
        yield self.time
        with self.split:
            with self.maps:
                yield self.heatmap
                yield self.mosaic
                yield self.stopped
                yield self.odd
            with self.below:
                yield self.card
                with self.upper:
                    yield self.onset
                    yield self.waitmap
                with self.lower:
                    yield self.changes
                    yield self.lastlines

    def share_of(self, node: NodeState) -> float | None:
        """A node's mean of the chosen figure, 0 to 1 of what is most."""
        figures = self.totals.figures.of(node.name)
        return None if figures is None else figures.share

    def give_room(self, part: Shares, view: int, *, few: bool, hangs: bool, below: bool, story: bool) -> None:
        """Show what has room, and give it that room; ``below`` the map of two cells a GPU there is some for ranks.

        ``story``: what came of the job has a line of its own above all.
        """
        graph, nodes = self.waitmap.active, len(self.scene.nodes)
        # all at once: with each for itself the parts were styled anew eight times, which is felt while nodes connect
        self.update_classes(
            {
                "-beside": part.beside,
                "-ranks": few and part.onset > 0,
                "-side": not few and part.beside,
                "-waits": part.graph > 0,
                "-row": part.row,
                "-stopped": below,
                "-mosaic": view > 1,
                "-graph": graph,
            }
        )
        self.bar.styles.height = 2 if story else 1
        self.time.display, self.time.styles.height = part.time > 0, max(1, part.time)
        # of a small job that hangs the cells have few lines: all of its nodes fit into them with two cells a GPU
        cells = 1 if few and hangs and self.view is None and nodes > part.heat else view
        self.heatmap.display, self.mosaic.display = not cells, bool(cells)
        self.mosaic.view, self.mosaic.room = cells or 1, part.heat
        self.maps.display = self.lower.display = not graph
        limit = part.heat if view or few or not part.beside else None
        self.heatmap.styles.max_height = self.mosaic.styles.max_height = limit
        self.card.display, self.card.styles.height = (
            part.card > 0 and not graph,
            "1fr" if part.row else max(1, part.card),
        )
        self.odd.display, self.odd.styles.height = part.odd > 0, max(1, part.odd)
        self.onset.display = few and part.onset > 0 and not graph
        self.waitmap.display = part.graph > 0 or graph
        self.lastlines.display = part.lines and bool(self.scene.accused)
        beside = part.row or (few and part.beside)
        self.upper.display = self.onset.display or self.waitmap.display
        self.onset.styles.height = "1fr" if beside or not part.onset else part.onset
        self.waitmap.styles.height = "1fr" if beside or graph else max(1, part.graph)
        self.upper.styles.height = (part.graph or "1fr") if beside and not graph and not part.row else None
