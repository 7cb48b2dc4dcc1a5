"""A large job at a glance: two cells a GPU, nodes in the order of their names; or half a block a node.

Each cell of a GPU holds a digit, tenths of what is most, or the letter of its rank's box: so it can be read without
colours.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from hangtop.session.state.job_state import NodeState
from tui.looks.text import cells as width_of
from tui.looks.text import fit
from tui.looks.theme import HEAT_STEPS, Ground, Tone
from tui.scene import Scene
from tui.widgets.halves import Halves
from tui.widgets.heat import Cell
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import BAR, Lines, Move, strip_of
from tui.widgets.links import link_glyph
from tui.widgets.runs import Runs


class Mosaic(Lines):
    """The map of a job that has more nodes than there are lines. It shares cursor and figure with the heat map."""

    class Moved(Message):
        """A node was clicked."""

    def __init__(self, scene: Scene, heatmap: HeatMap, share: Callable[[NodeState], float | None]) -> None:
        super().__init__(id="mosaic")
        self.scene, self.heatmap = scene, heatmap
        self.halves = Halves(scene, heatmap, share)
        """``share`` tells a node's mean of the chosen figure, 0 to 1 of what is most."""
        self.view = 1
        self._rows: list[NodeState] = []
        self._stood = (0, 0, 0)
        """The node under the cursor, its line and the lines that were shown when it was last brought into view."""
        self._label = 8
        self._across = 1
        """Blocks side by side."""
        self._each = 1
        """Cells of a block."""
        self.room = 1
        """Lines that it may take."""
        self.lines = 1
        """Lines that it needs."""

    def feed(self) -> None:
        """Take the latest nodes and draw."""
        self._rows = self.scene.nodes
        width = self.size.width
        if self.view == 1:
            short = self.scene.names
            names = (width_of(short.of(node.name)) for node in self._rows)
            name = min(max(names, default=4), 20)
            most = max((len(node.gpus) or len(node.ranks) for node in self._rows), default=1) or 1
            for cells in (width, width - BAR):
                # a gap less behind the names where that makes room for a column more
                wide, tight = ((cells + 1) // (name + gap + 2 * most + 1) for gap in (3, 2))
                self._label = name + (2 if tight > wide else 3)
                self._each = self._label + 2 * most + 1
                self._across = max(1, wide, tight)
                lines = -(-len(self._rows) // self._across)
                if lines <= self.room:
                    break
        else:
            self.halves.feed(self._rows, self.ink, self.clear_of_bar(width), self.room)
            lines = self.halves.height
        self.lines = max(1, lines)
        self.resize_to(width, self.lines)
        line = self._line_of(self.heatmap.node_at)
        if (stands := (self.heatmap.node_at, line, self.size.height)) != self._stood:
            self._stood = stands
            self.bring(line)
        self.redraw()

    @property
    def _below(self) -> int:
        """Blocks below each other."""
        return max(1, -(-len(self._rows) // self._across))

    def move(self, how: Move) -> None:
        """Move from node to node."""
        if not self._rows:
            return
        at, far, page = self.heatmap.node_at, len(self._rows), max(1, self.size.height - 1)
        if self.view > 1:
            target = self.halves.beside(at, how, page)
        else:
            steps = {"left": -self._below, "right": self._below, "up": -1, "down": 1}
            steps |= {"page_up": -page, "page_down": page, "first": -far, "last": far}
            target = at + steps[how]
            if how in ("left", "right", "up", "down") and not 0 <= target < far:
                return
        self.heatmap.moved, self.heatmap.node_at = True, max(0, min(far - 1, target))
        self.bring(self._line_of(self.heatmap.node_at))
        self.redraw()

    def _line_of(self, index: int) -> int:
        return index % self._below if self.view == 1 else self.halves.line_of(index)

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        if not self._rows:
            return strip_of([("  no node has answered yet", Tone.DIM)] if y == 0 else [], width, self.ink)
        plain = self.ink.of(Tone.TEXT)
        line = Runs(plain)
        if self.view == 1:
            self._line_of_blocks(line, self.top + y)
        else:
            self.halves.paint(line, self.top + y)
        return line.strip().adjust_cell_length(width, plain)

    # --- two cells a GPU -----------------------------------------------------------------------------------------

    def _line_of_blocks(self, line: Runs, place: int) -> None:
        plain, below = self.ink.of(Tone.TEXT), self._below
        if place >= below:
            return
        for index in range(place, len(self._rows), below):
            line.add(" " * (self._each - self._block(line, index)), plain)

    def _block(self, line: Runs, index: int) -> int:
        node, ink, here = self._rows[index], self.ink, index == self.heatmap.node_at
        stale = self.scene.stale(node)
        glyph, tone = link_glyph(node.link)
        line.add("▸" if here else glyph, ink.of(Tone.ACCENT if here else tone))
        ground = Ground.STALE if stale else Ground.CURSOR if here else Ground.PLAIN
        line.add(
            " " + fit(self.scene.names.of(node.name), self._label - 2),
            ink.of(Tone.STRONG if here else Tone.TEXT, ground),
        )
        found = self.heatmap.cells(node)
        for cell in found:
            line.add(f" {_sign(cell)}", self._style(cell, stale=stale))
        if not found:
            line.add(fit(node.link, self._each - self._label - 1), ink.of(Tone.DIM))
            return self._each - 1
        return self._label + 2 * len(found)

    def _style(self, cell: Cell, *, stale: bool) -> Style:
        ink = self.ink
        if cell.blamed:
            return ink.alarm[2]
        if stale:
            return ink.of(cell.tone, Ground.STALE)
        if cell.heat is None:
            return ink.of(cell.tone)
        return ink.heat[round(cell.heat * (HEAT_STEPS - 1))]

    # --- mouse ---------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Stand on a node; twice enters it."""
        y = self.top + event.y
        index = event.x // self._each * self._below + y if y < self._below else -1
        if self.view > 1:
            found = self.halves.at(event.x, y)
            index = -1 if found is None else found
        if 0 <= index < len(self._rows):
            self.heatmap.moved, self.heatmap.node_at = True, index
            self.redraw()
            self.post_message(self.Moved())
            if event.chain == 2:
                self.post_message(self.Entered())


def _sign(cell: Cell) -> str:
    """One character: a tenth, a letter, or what is wrong."""
    if cell.heat is not None:
        return str(min(9, int(cell.heat * 10)))
    return {"ERR": "!"}.get(cell.value, cell.value[:1])
