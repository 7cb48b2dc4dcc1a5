"""Panel 1: the whole job over time and at this moment: charts, heat map, who stopped first, what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from hangtop.diagnosis.phrasing import ranks_on
from hangtop.diagnosis.verdict.chain_text import chain_lines
from tui.logs.changes import MARKS
from tui.looks.format import clock
from tui.panels.base import Fact, Place
from tui.panels.overview_layout import OverviewParts
from tui.scene import Scene
from tui.sharing import FEW, HAPPENED, RANKS_BELOW, SOME, VIEWS, Shares, shares, usual_view
from tui.waits.drawing import LINES
from tui.widgets.lines import Move, Piece
from tui.widgets.onset import HEAD

WAITS_PLACE, HAPPENED_PLACE = "who waits for whom", "what happened"
"""Where in this panel a place can be that is no cell."""
TURNS = 3
"""Rounds of the event loop between the two halves of a drawing of thousands of nodes, for keys and what nodes say."""
Layout: TypeAlias = tuple[Shares, int, bool, bool, tuple[bool, ...], int]
"""Who has how much room, the view, whether there are few nodes, whether the job hangs, what else is shown, and cells of
the ranks' lines."""


class OverviewPanel(OverviewParts):
    """Time above; the heat map; the ranks in the order in which they stopped, and what happened."""

    NAME = "overview"
    CAN = frozenset({"enter", "metric", "node", "ranks", "details", "time", "graph", "view"})
    WHY_NO_FILTER = "the overview shows the whole job: 2 Ranks, 3 GPUs, 4 Fabric and 6 Nodes can be filtered"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._shares: Layout | None = None
        self._viewed: set[str] = set()
        """Log files whose lines were asked for."""

    @property
    def can(self) -> frozenset[str]:
        """In the picture of waits the arrows go from box to box, in what happened from line to line."""
        if self.waitmap.active:
            return self.CAN - {"time", "metric", "view", "details"}
        return self.CAN - {"metric", "view", "details", "node", "ranks"} if self.changes.active else self.CAN

    def draw(self) -> None:
        """Draw all that is shown."""
        self._share()
        self.time.keys = not self.waitmap.active
        self.time.feed()
        self.heatmap.feed(self._shares[0].heat if self._shares else 10)
        first = self.totals.pieces()
        if len(self.scene.nodes) > SOME:
            self.call_later(self._draw_below_soon, first)  # each half of so many is felt at the keys
        else:
            self._draw_below(first)

    async def _draw_below_soon(self, first: Sequence[Piece]) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._draw_below(first)

    def _draw_below(self, first: Sequence[Piece]) -> None:
        """Draw what is below the charts, and the totals, ``first`` among them those of all nodes."""
        for shown, feed in (
            (self.mosaic, self.mosaic.feed),
            (self.odd, self._feed_odd),
            (self.card, self._feed_card),
            (self.onset, self.onset.feed),
            (self.stopped, self.stopped.feed),
            (self.waitmap, self.waitmap.feed),
            (self.lastlines, self.lastlines.feed),
        ):
            if shown.display and self._shares:  # until there is a size, all are, and of 16,384 ranks that costs
                feed()
        self.changes.feed()
        grouped = self.mosaic.halves.told() if self.mosaic.display and self.mosaic.view > 1 else []
        story = [self.totals.story()] if self.scene.waits or self.scene.crashed else []
        self.bar.show(*story, [*first, *grouped])
        self._view_logs()

    def _feed_card(self) -> None:
        current = self.heatmap.current
        self.card.feed(current[0] if current else None)

    def _feed_odd(self) -> None:
        where, filled = self.mosaic.halves.where if self.mosaic.view > 1 else {}, self.odd.lines
        self.odd.feed([self.share_of(node) for node in self.scene.nodes], self.heatmap.metric.title, where)
        if self.odd.lines != filled:
            self._share()

    def _view_logs(self) -> None:
        """Ask for the culprit's lines while they are on view; this may be drawn once more after it was left."""
        on_view = self.display and self.lastlines.display and not self.waitmap.active
        wanted = self.lastlines.paths() if on_view else set()
        if wanted != self._viewed:
            self._viewed = wanted
            self.scene.session.told.view_logs(wanted)

    def hidden(self) -> None:
        """Raw lines cost the nodes something: none are wanted now."""
        if self._viewed:
            self._viewed = set()
            self.scene.session.told.view_logs(set())

    def _share(self) -> None:
        """Lay out anew when the size or the kind of job is another."""
        if not self.size:
            return
        hangs, crashed, graph = bool(self.scene.waits), self.scene.crashed, self.waitmap.active
        story = hangs or crashed
        width, height, nodes = self.size.width, self.size.height - (2 if story else 1), len(self.scene.nodes)
        view = usual_view(nodes) if self.view is None else self.view
        need, waits, figures = self._needed(), self._drawn(), self.heatmap.lines
        part = shares(
            width, height, nodes, view,
            hangs=hangs, crashed=crashed, need=need, waits=waits, figures=figures, odd=self.odd.lines,
            story=self._told(), charts=self.time.fills,
        )  # fmt: skip
        below = view == 1 and part.beside and part.heat - self.mosaic.lines >= RANKS_BELOW and not graph
        flags = graph, below, story, bool(self.scene.accused)
        found = part, view, nodes <= FEW, hangs, flags, self.onset.filled(width // 2) if nodes <= FEW else 0
        if found == self._shares:
            return
        self._shares = found
        self.give_room(found[0], view, few=nodes <= FEW and not view, hangs=hangs, below=below, story=story)
        # beside the ranks the picture of waits has all that they do not fill
        self.onset.styles.width = found[-1] if found[0].beside and found[0].graph else "1fr"
        self.call_after_refresh(self.draw)

    def _needed(self) -> int:
        """Lines that ranks and the picture of waits fill, each under its title."""
        return max(HEAD + len(self.scene.ranks), self._drawn())

    def _told(self) -> int:
        """Lines that what happened or the culprit's last lines fill, by fours: charts do not change with each line."""
        told = max(self.changes.fills, self.lastlines.fills if self.lastlines.display else 0)
        return -(-min(told, 2 * HAPPENED) // 4) * 4

    def _drawn(self) -> int:
        """Lines that the picture of waits fills, its title included."""
        return 1 + self.scene.waiting.tallest * (LINES + 2)

    def renew(self) -> None:
        """Add up the totals anew, and read what was written until then."""
        self.totals.forget()
        self.lastlines.again()
        self.odd.again()

    def move(self, how: Move) -> None:
        """Move the cursor: from box to box, from line to line, from cell to cell, or from node to node."""
        if self.waitmap.active:
            self.waitmap.move(how)
        elif self.changes.active:
            self.changes.move(how)
        elif self.mosaic.display:
            self.mosaic.move(how)
            self._feed_card()
        else:
            self.heatmap.move(how)

    def next_metric(self, step: int) -> None:
        """Show another figure in the cells."""
        self.heatmap.turn(step)
        self.totals.figures.forget()
        self.draw()

    def next_view(self, step: int) -> str:
        """Come closer (-1) or go farther (1); returns what is shown then."""
        now = usual_view(len(self.scene.nodes)) if self.view is None else self.view
        self.view = max(0, min(len(VIEWS) - 1, now + step))
        self.draw()
        at_end = f": nothing is {'closer' if step < 0 else 'farther'}" if self.view == now else ""
        return f"{VIEWS[self.view]}{at_end}"

    def show_graph(self, *, on: bool) -> None:
        """Give all the room to who waits for whom, and the cursor."""
        self.waitmap.active = on
        self.changes.active = False
        self.draw()

    def show_happened(self, *, on: bool) -> None:
        """Give the cursor to what happened."""
        self.changes.active = on
        self.waitmap.active = False
        self.draw()

    def leave(self) -> bool:
        """Leave the picture of waits, or what happened."""
        active = self.waitmap.active or self.changes.active
        if active:
            self.waitmap.active = self.changes.active = False
            self.draw()
        return active

    def enter(self) -> Place | None:
        """To what a box stands for; to the moment of what happened; or to the node's ranks, standing on the cell's."""
        if self.waitmap.active:
            from tui.panels.opening import opened  # with what the diagnosis is made of: not before the first frame

            return opened(self.waitmap.boxes(), self.scene)
        if self.changes.active:
            change = self.changes.current
            if change is None:
                return None
            what = f"{clock(change.at, millis=False)} {MARKS[change.kind].label or change.node}".rstrip()
            return Place(self.NAME, "", (HAPPENED_PLACE, change.at), what, change.at)
        current = self.heatmap.current
        if current is None:
            return None
        node, cell = current
        return Place("ranks", f"node={node.name}", cell.number if cell and not self.mosaic.display else None)

    def here(self) -> Hashable:
        """The box, the line, or the cell."""
        box, change = self.waitmap.box, self.changes.current
        if self.waitmap.active:
            return WAITS_PLACE, box.ranks[0] if box and box.ranks else -1
        if self.changes.active:
            return HAPPENED_PLACE, change.at if change else 0.0
        return self.heatmap.node_at, self.heatmap.cell_at

    def select(self, key: Hashable) -> None:
        """Stand on a box, a line or a cell."""
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int | float):
            if key[0] == HAPPENED_PLACE:
                self.show_happened(on=True)
                self.changes.select(key[1])
            elif isinstance(key[1], float):
                return
            elif key[0] == WAITS_PLACE:
                self.show_graph(on=True)
                self.waitmap.select(key[1])
            elif isinstance(key[0], int):
                heatmap = self.heatmap
                heatmap.moved = heatmap.moved or (heatmap.node_at, heatmap.cell_at) != key
                heatmap.node_at, heatmap.cell_at = key[0], key[1]

    def node(self) -> str | None:
        """Node of the box, or under the cursor."""
        if self.waitmap.active:
            boxes = self.waitmap.boxes()
            return next((node for box in boxes for node in box.nodes), None)
        current = self.heatmap.current
        return current[0].name if current else None

    def chosen_ranks(self) -> set[int]:
        """Ranks of the box, or under the cursor."""
        if self.waitmap.active:
            return {rank for box in self.waitmap.boxes() for rank in box.ranks}
        current = self.heatmap.current
        if current is not None and self.mosaic.display:
            return {rank.process.rank for rank in current[0].ranks.values() if rank.gone_at is None}
        number = current[1].number if current and current[1] else None
        return set() if number is None else {number}

    def text(self) -> str:
        """The picture of waits as text, or what happened, where the cursor is in it."""
        if self.changes.active:
            return self.changes.text()
        return "\n".join(chain_lines(self.scene.waits)) if self.waitmap.active else ""

    def details(self) -> tuple[str, list[Fact]] | None:
        """The rank under the cursor, or its node."""
        from tui.panels.facts import node_facts, rank_facts

        current = self.heatmap.current
        if current is None:
            return None
        node, cell = current
        for row in self.scene.ranks:
            if cell is not None and not self.mosaic.display and row.node is node and row.number == cell.number:
                return ranks_on([row.number], [node.name]), rank_facts(row, self.scene)
        return node.name, node_facts(node, self.scene)

    def on_wait_map_chosen(self) -> None:
        """A box was clicked: the cursor is there now."""
        if not self.waitmap.active:
            self.show_graph(on=True)

    def on_happened_chosen(self) -> None:
        """A line was clicked: the cursor is there now."""
        self.show_happened(on=True)

    def on_mosaic_moved(self) -> None:
        """A node was clicked."""
        self._feed_card()
