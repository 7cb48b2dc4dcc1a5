"""A large job at a glance: two cells a GPU, or half a block a node; nodes in the order of their names.

Each cell of a GPU holds a digit, tenths of what is most, or the letter of its rank's box: so it can be read without
colours. Half a block has no room for one: where there are no colours, or no such characters, a node has a whole cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rich.color import Color
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from hangtop.session.state import NodeState
from tui.rolling import Rolling
from tui.scene import Scene
from tui.text import cells as width_of
from tui.text import fit
from tui.theme import HEAT_STEPS, Ground, Tone
from tui.waits.levels import letter_of
from tui.widgets.heat import Cell
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Lines, Move, strip_of
from tui.widgets.links import link_glyph
from tui.widgets.runs import Runs

ROUND = (10, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
"""Nodes side by side: numbers that make the first names of lines easy to count on from."""
HALF = "▀"
_CALM = 3
"""Heat of what is no news."""


class Mosaic(Lines):
    """The map of a job that has more nodes than there are lines. It shares cursor and figure with the heat map."""

    class Entered(Message):
        """A node was clicked twice."""

    class Moved(Message):
        """A node was clicked."""

    def __init__(self, scene: Scene, heatmap: HeatMap, share: Callable[[NodeState], float | None]) -> None:
        super().__init__(id="mosaic")
        self.scene, self.heatmap, self._share = scene, heatmap, share
        """``share`` tells a node's mean of the chosen figure, 0 to 1 of what is most."""
        self.view = 1
        self._rows: list[NodeState] = []
        self._label = 8
        self._across = 1
        """Blocks, or nodes, side by side."""
        self._each = 1
        """Cells of a block."""
        self._wide = 1
        """Cells of a node that has no more than half of them each."""
        self._colours = Rolling(self._colour)
        self._meaning: tuple[object, object, object] = (None, None, None)
        self.room = 1
        """Lines that it may take."""

    def feed(self) -> None:
        """Take the latest nodes and draw."""
        self._rows = self.scene.nodes
        self._learn()
        names = (width_of(node.name) for node in self._rows)
        self._label = min(max(names, default=4), 20) + 3
        width = self.size.width
        if self.view == 1:
            most = max((len(node.gpus) or len(node.ranks) for node in self._rows), default=1) or 1
            self._each = self._label + 2 * most + 1
            self._across = max(1, (width + 1) // self._each)
            lines = -(-len(self._rows) // self._across)
        else:
            self._wide, self._across = self._fitting(max(1, width - self._label - 1))
            lines = -(-len(self._rows) // (self._across * self._deep))
        self.resize_to(width, max(1, lines))
        self.redraw()

    def _learn(self) -> None:
        """Work the colours out anew, of thousands of nodes a part a tick, or all when they mean something else."""
        if self.view == 1:
            return
        meaning = self.scene.waits, self.heatmap.metric, self.ink
        if any(new is not old for new, old in zip(meaning, self._meaning, strict=True)):
            self._meaning = meaning
            self._colours.forget()
        self._colours.turn(self._rows)

    def _fitting(self, room: int) -> tuple[int, int]:
        """Cells of a node and nodes side by side, so that all are seen, and the larger the better."""
        count, height = len(self._rows), max(1, self.room)
        for wide in (3, 2, 1):
            for across in ROUND:
                if across * wide <= room and -(-count // (across * self._deep)) <= height:
                    return wide, across
        return 1, room

    @property
    def _deep(self) -> int:
        """Nodes in one cell, one above the other."""
        return 1 if self.scene.plain or self.ink.heat[0].bgcolor is None else 2

    @property
    def _below(self) -> int:
        """Blocks below each other."""
        return max(1, -(-len(self._rows) // self._across))

    def move(self, how: Move) -> None:
        """Move from node to node."""
        if not self._rows:
            return
        at, far = self.heatmap.node_at, len(self._rows)
        if self.view == 1:
            steps = {"left": -self._below, "right": self._below, "up": -1, "down": 1}
        else:
            steps = {"left": -1, "right": 1, "up": -self._across, "down": self._across}
        page = max(1, self.size.height - 1) * steps["down"]
        steps |= {"page_up": -page, "page_down": page, "first": -far, "last": far}
        target = at + steps[how]
        if how in ("left", "right", "up", "down") and not 0 <= target < far:
            return
        self.heatmap.node_at = max(0, min(far - 1, target))
        self.bring(self._line_of(self.heatmap.node_at))
        self.redraw()

    def _line_of(self, index: int) -> int:
        return index % self._below if self.view == 1 else index // (self._across * self._deep)

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
            self._line_of_nodes(line, self.top + y)
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
        line.add(" " + fit(node.name, self._label - 2), ink.of(Tone.STRONG if here else Tone.TEXT, ground))
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

    # --- half a block a node -------------------------------------------------------------------------------------

    def _line_of_nodes(self, line: Runs, place: int) -> None:
        deep, across = self._deep, self._across
        first = place * across * deep
        if first >= len(self._rows):
            return
        ink, at = self.ink, self.heatmap.node_at
        here = first <= at < first + across * deep
        line.add("▸ " if here else "  ", ink.of(Tone.ACCENT))
        line.add(fit(self._rows[first].name, self._label - 2), ink.of(Tone.TEXT if here else Tone.DIM))
        ground = ink.of(Tone.TEXT).bgcolor
        for index in range(first, min(first + across, len(self._rows))):
            if deep == 1:
                line.add(*self._whole(index))
                continue
            lower = index + across
            colours = [
                ink.of(Tone.ACCENT).color if each == at else self._colours.of(self._rows[each].name)
                for each in (index, lower) if each < len(self._rows)
            ]  # fmt: skip
            line.add(HALF * self._wide, _halves(colours[0], colours[1] if len(colours) > 1 else ground))

    def _whole(self, index: int) -> tuple[str, Style]:
        """A node in a cell of its own: a letter or a digit."""
        node, here = self._rows[index], index == self.heatmap.node_at
        place = self._box(node)
        share = self._share(node)
        if node.link not in ("live", "offline", "limited"):
            text = link_glyph(node.link)[0]
        elif place is not None:
            text = letter_of(place)
        else:
            text = "·" if share is None else str(min(9, int(share * 10)))
        blamed = place is not None and self.scene.waits[place].blamed
        style = self.ink.alarm[2] if blamed else self.ink.of(Tone.TEXT, Ground.CURSOR if here else Ground.PLAIN)
        return text * self._wide, style

    def _box(self, node: NodeState) -> int | None:
        """The box that tells most of a node's ranks: the blamed one, else the smallest."""
        waiting, waits = self.scene.waiting, self.scene.waits
        if not waits or self.heatmap.metric.unit:
            return None
        places = {waiting.place_of.get(rank.process.rank) for rank in node.ranks.values()} - {None}
        known = [place for place in places if place is not None]
        return min(known, key=lambda place: (not waits[place].blamed, len(waits[place].ranks)), default=None)

    def _colour(self, node: NodeState) -> Color | None:
        ink, place = self.ink, self._box(node)
        if place is not None and self.scene.waits[place].blamed:
            alarm = ink.alarm[2]
            return alarm.color if alarm.reverse else alarm.bgcolor
        if node.link == "lost" or node.link == "stale" or self.scene.stale(node):
            return ink.of(Tone.WARN).color
        if node.link == "connecting":
            return ink.of(Tone.DIM).color
        if place is not None:
            # where most wait is no news; where others wait is
            most = max(len(box.ranks) for box in self.scene.waits)
            return ink.heat[_CALM].bgcolor if len(self.scene.waits[place].ranks) == most else ink.hue(place).color
        share = self._share(node)
        return ink.of(Tone.DIM).color if share is None else ink.heat[round(share * (HEAT_STEPS - 1))].bgcolor

    # --- mouse ---------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Stand on a node; twice enters it."""
        y = self.top + event.y
        if self.view == 1:
            index = event.x // self._each * self._below + y if y < self._below else -1
        else:
            column = (event.x - self._label) // self._wide
            index = y * self._across * self._deep + column if 0 <= column < self._across else -1
        if 0 <= index < len(self._rows):
            self.heatmap.node_at = index
            self.redraw()
            self.post_message(self.Moved())
            if event.chain == 2:
                self.post_message(self.Entered())


@lru_cache(4096)
def _halves(upper: Color | None, lower: Color | None) -> Style:
    """One object for what looks alike: neighbours are put together by identity."""
    return Style(color=upper, bgcolor=lower)


def _sign(cell: Cell) -> str:
    """One character: a tenth, a letter, or what is wrong."""
    if cell.heat is not None:
        return str(min(9, int(cell.heat * 10)))
    return {"ERR": "!"}.get(cell.value, cell.value[:1])
