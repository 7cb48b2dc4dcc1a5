"""Half a block a node: thousands of them in a few lines, in groups of what hangs at one leaf or stands in one rack.

Half a block has no room for a character: where there are no colours, or no such characters, a node has a whole cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from rich.color import Color
from rich.style import Style

from hangtop.diagnosis.places import BY_NAME
from hangtop.session.state.job_state import NodeState
from tui.figures.rolling import Rolling
from tui.looks.text import fit
from tui.looks.theme import HEAT_STEPS, Ground, Ink, Tone
from tui.ordering.floor import Floor, Floors
from tui.scene import Scene
from tui.waits.levels import letter_of
from tui.widgets.bays import BayPlan, BayRow, in_groups, in_order
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Move, Piece
from tui.widgets.links import link_glyph
from tui.widgets.runs import Runs

HALF = "▀"
ABOVE, BELOW = "▲", "▼"
"""The cursor on a node that is blamed: in the upper half of a cell, or in the lower one."""
_CALM = 3
"""Heat of what is no news."""
_GREY = Color.parse("bright_black")
_UNDER = Style(underline=True)
_NONE = BayPlan((), 1, 0, None, {})


class Hue(NamedTuple):
    """What a node's half looks like."""

    color: Color | None
    tone: Tone
    """Of its group's name: what is worst in it."""


class Halves:
    """Paints nodes and finds them again; the mosaic is the widget. Shares cursor and figure with the heat map."""

    def __init__(self, scene: Scene, heatmap: HeatMap, share: Callable[[NodeState], float | None]) -> None:
        self.scene, self.heatmap, self._share = scene, heatmap, share
        self.plan = _NONE
        self.where: dict[str, str] = {}
        """The group of each node; empty where there are none."""
        self._rows: Sequence[NodeState] = ()
        self._floors = Floors()
        self._planned: tuple[list[Floor], int, int, int, int] | None = None
        self._hues = Rolling(self._hue)
        self._shown: list[Hue] = []
        """Of each node, in their order."""
        self._order: list[int] = []
        """Places of nodes as left and right go through them."""
        self._meaning: tuple[object, object, object] = (None, None, None)
        self._ink: Ink | None = None

    @property
    def ink(self) -> Ink:
        """Styles of the present theme."""
        assert self._ink is not None
        return self._ink

    def told(self) -> list[Piece]:
        """By what nodes are grouped, and who says so."""
        floor = self.plan.floor
        if floor is None:
            return []
        what = "the beginning of their names" if floor.level == "name" else floor.level
        source = {"name": "", BY_NAME: ", guessed from node names"}
        said = source.get(floor.level, source.get(floor.source, f", by {floor.source}"))
        return [(f"   nodes by {what}", Tone.TEXT), (said, Tone.DIM)]

    @property
    def deep(self) -> int:
        """Nodes in one cell, one above the other."""
        return 1 if self.scene.plain or self.ink.heat[0].bgcolor is None else 2

    def feed(self, rows: Sequence[NodeState], ink: Ink, width: int, height: int) -> None:
        """Take the latest nodes; what their colours mean is worked out a part a tick, or all when it is another."""
        if rows is not self._rows:
            self._hues.forget()
        self._rows, self._ink = rows, ink
        floors = self._floors.turn(rows)
        key = floors, len(rows), width, height, self.deep
        if self._planned is None or key[0] is not self._planned[0] or key[1:] != self._planned[1:]:
            self._planned = key
            plans = (plan for floor in floors if (plan := in_groups(floor, width, max(1, height), self.deep)))
            self.plan = next(plans, None) or in_order(
                self.scene.names.all(node.name for node in rows), width, max(1, height), self.deep
            )
            bays = self.plan.floor.bays if self.plan.floor is not None else ()
            self._order = [each for bay in bays for each in bay.members] or list(range(len(rows)))
            self.where = {rows[each].name: bay.name for bay in bays for each in bay.members}
        meaning = self.scene.waits, self.heatmap.metric, ink
        if any(new is not old for new, old in zip(meaning, self._meaning, strict=True)):
            self._meaning = meaning
            self._hues.forget()
        self._shown = self._hues.turn(rows)

    @property
    def height(self) -> int:
        """Lines that all of it takes."""
        return len(self.plan.lines)

    def line_of(self, node: int) -> int:
        """The line in which a node is."""
        spot = self.plan.spots.get(node)
        return 0 if spot is None else spot.row // self.deep

    def beside(self, node: int, how: Move, page: int) -> int:
        """The node that lies so, as one sees it; the same one at an edge."""
        spots, here = self.plan.spots, self.plan.spots.get(node)
        if here is None:
            return 0
        if how in ("first", "last"):
            return (min if how == "first" else max)(spots, key=lambda each: (spots[each].row, spots[each].x))
        step = -1 if how in ("up", "page_up", "left") else 1
        if how in ("left", "right"):
            place = self._order.index(node) + step
            return self._order[place] if 0 <= place < len(self._order) else node
        far = step * (page * self.deep if how in ("page_up", "page_down") else 1)
        rows = sorted({spot.row for spot in spots.values()})
        row = rows[max(0, min(len(rows) - 1, rows.index(here.row) + far))]
        return min((each for each in spots if spots[each].row == row), key=lambda each: abs(spots[each].x - here.x))

    def at(self, x: int, line: int) -> int | None:
        """The node in a cell, the upper one of two; None where there is none."""
        for row in self.plan.lines[line] if 0 <= line < len(self.plan.lines) else ():
            place = (x - row.x) // self.plan.wide
            if 0 <= place < len(row.upper):
                return row.upper[place]
        return None

    def paint(self, line: Runs, place: int) -> None:
        """One line of the map; nothing while it was fed with nothing."""
        if self._ink is None:
            return
        at, drawn, plain = self.heatmap.node_at, 0, self.ink.of(Tone.TEXT)
        for row in self.plan.lines[place] if place < len(self.plan.lines) else ():
            begin = row.x - self.plan.label
            line.add(" " * (begin - drawn), plain)
            here = at in row.upper or at in row.lower
            line.add("▸ " if here else "  ", self.ink.of(Tone.ACCENT))
            line.add(fit(row.name, self.plan.label - 2), self.ink.of(self._tone(row, here=here)))
            self._nodes(line, row, at)
            drawn = row.x + len(row.upper) * self.plan.wide

    def _tone(self, row: BayRow, *, here: bool) -> Tone:
        """A group in which something is wrong shows that by its name."""
        if row.name and self.plan.floor is not None:
            members = self.plan.floor.bays[row.bay].members
            tones = {self._shown[each].tone for each in members}
            for tone in (Tone.BAD, Tone.WARN):
                if tone in tones:
                    return tone
        return Tone.TEXT if here else Tone.DIM

    def _nodes(self, line: Runs, row: BayRow, at: int) -> None:
        if self.deep == 1:
            for each in row.upper:
                line.add(*self._whole(each))
            return
        ground, cursor = self.ink.of(Tone.TEXT).bgcolor, self.ink.of(Tone.ACCENT).color
        shown, text = self._shown, HALF * self.plan.wide
        for upper, lower in zip_longest(row.upper, row.lower, fillvalue=-1):
            if at in (upper, lower) and shown[at].tone is Tone.BAD:
                # who is blamed stays red under the cursor, which points to its half
                line.add((ABOVE if at == upper else BELOW) * self.plan.wide, self.ink.alarm[2])
                continue
            above = cursor if upper == at else shown[upper].color
            below = ground if lower < 0 else cursor if lower == at else shown[lower].color
            line.add(text, _halves(above, below))

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
        alarm = self.ink.alarm[2] + _UNDER if here else self.ink.alarm[2]
        style = alarm if blamed else self.ink.of(Tone.TEXT, Ground.CURSOR if here else Ground.PLAIN)
        return text * self.plan.wide, style

    def _box(self, node: NodeState) -> int | None:
        """The box that tells most of a node's ranks: the blamed one, else the smallest."""
        waiting, waits = self.scene.waiting, self.scene.waits
        if not waits or self.heatmap.metric.unit:
            return None
        places = {waiting.place_of.get(rank.process.rank) for rank in node.ranks.values()} - {None}
        known = [place for place in places if place is not None]
        return min(known, key=lambda place: (not waits[place].blamed, len(waits[place].ranks)), default=None)

    def _hue(self, node: NodeState) -> Hue:
        ink, place = self.ink, self._box(node)
        if place is not None and self.scene.waits[place].blamed:
            alarm = ink.alarm[2]
            return Hue(alarm.color if alarm.reverse else alarm.bgcolor, Tone.BAD)
        if node.link == "lost" or node.link == "stale" or self.scene.stale(node):
            return Hue(ink.of(Tone.WARN).color, Tone.WARN)
        if node.link == "connecting":
            return Hue(_dim(ink), Tone.DIM)
        if place is not None:
            # where most wait is no news; where others wait is
            most = max(len(box.ranks) for box in self.scene.waits)
            calm = len(self.scene.waits[place].ranks) == most
            return Hue(ink.heat[_CALM].bgcolor if calm else ink.hue(place).color, Tone.DIM)
        share = self._share(node)
        heat = None if share is None else ink.heat[round(share * (HEAT_STEPS - 1))]
        return Hue(_dim(ink) if heat is None else heat.bgcolor, Tone.DIM)


def _dim(ink: Ink) -> Color:
    """A colour of what is dim: of sixteen none is, and without one an upper half would be bright, a lower one dark."""
    return ink.of(Tone.DIM).color or _GREY


@lru_cache(4096)
def _halves(upper: Color | None, lower: Color | None) -> Style:
    """One object for what looks alike: neighbours are put together by identity."""
    return Style(color=upper, bgcolor=lower)
