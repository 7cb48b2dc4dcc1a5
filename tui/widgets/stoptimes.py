"""Ranks × the last minute, a cell a second: who stopped first stands first, and the others make a wedge below it."""

from __future__ import annotations

from itertools import groupby
from math import floor
from typing import NamedTuple

from textual.strip import Strip

from hangtop.session.history.lanes import MOVED, STILL, UNSEEN, Lane
from tui.looks.format import SILENT, UNKNOWN, age, number, percent
from tui.looks.text import cells, fit
from tui.looks.theme import Background, Colour
from tui.measure import cpu_percent, row_of
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel
from tui.widgets.lines import Lines, Piece, ruled, strip_of

MINUTE = 60
"""Seconds that are shown; on a narrow screen in cells of two or more seconds."""
NAME = 14
"""Cells of a node's name at the most."""
_SIGNS = {MOVED: ("▇", Colour.GRAPH), STILL: ("·", Colour.DIM), UNSEEN: (" ", Colour.DIM)}
"""Of each value that a cell can hold."""


class StopRow(NamedTuple):
    """One rank."""

    row: RankRow
    lane: Lane | None
    stopped: float | None
    """Since when it stands still."""
    suspect: bool


class StopTimes(Lines, can_focus=False):
    """The ranks of a job, the first to stop above."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="stoptimes")
        self.model = model
        self._rows: list[StopRow] = []

    def draw(self) -> None:
        """Take the latest and draw."""
        model, history = self.model, self.model.timeline.head.history
        suspects = frozenset(row.number for row in model.suspects if model.outcome == "hung")
        rows = []
        for row in model.ranks:
            if row.rank.gone_at is None and not model.strange(row.node, row.rank.process.pid):
                lane = history.ranks.get((row.node.name, row.rank.process.pid))
                stopped = None if lane is None else lane.stopped(model.now)
                rows.append(StopRow(row, lane, stopped, row.number in suspects))
        rows.sort(key=lambda one: (not one.suspect, one.stopped is None, one.stopped or 0.0, one.row.number))
        self._rows = rows
        self.resize_to(len(rows) + 2)
        self.redraw()

    @property
    def _longest(self) -> int:
        """Cells of the longest name of their nodes."""
        return min(NAME, max((4, *(cells(self.model.names.of(one.row.node.name)) for one in self._rows))))

    @property
    def _shown(self) -> int:
        """Cells of the last minute."""
        left = self.room - (8 + self._longest + 13 + (6 if self.model.gpus else 0)) - 1
        return next((count for count in (60, 30, 20, 15, 12) if count <= left), 10)

    def paint(self, y: int, width: int) -> Strip:
        """A title, heads, then one rank a line."""
        place = self.top + y - 2
        if y < 2:
            return strip_of(self._title(width) if y == 0 else self._heads(), width, self.palette)
        if place >= len(self._rows):
            nobody = " no rank is seen to run" if y == 2 and not self._rows else ""
            return strip_of([(nobody, Colour.DIM)], width, self.palette)
        one = self._rows[place]
        ground = Background.STALE if self.model.stale(one.row.node) else Background.PLAIN
        return strip_of(self._line(one), width, self.palette, ground)

    def _title(self, width: int) -> list[Piece]:
        """What rows and cells are; of files nobody watched how ranks moved."""
        seen = any(one.lane for one in self._rows)
        return ruled(" ranks, first to stop above " if seen else " ranks ", " ▇ moves · still ─" if seen else "", width)

    def _heads(self) -> list[Piece]:
        when = fit(f"-{MINUTE} s", self._shown)
        right = f"{fit('still', 7, 'right')} {fit('cpu', 5, 'right')}{' power' if self.model.gpus else ''}"
        return [(f" {fit('rank', 5, 'right')} {fit('node', self._longest)} {when}{right}", Colour.DIM)]

    def _line(self, one: StopRow) -> list[Piece]:
        model, row = self.model, one.row
        silent, who = model.stale(row.node), str(row.number) if row.number >= 0 else "?"
        going = SILENT if silent else UNKNOWN if one.lane is None else "moves"
        still = age(model.now - one.stopped) if one.stopped is not None else going
        cpu = None if silent else cpu_percent(row.rank, row.node, model.interval)
        pieces: list[Piece] = [
            ("▶ " if one.suspect else "  ", Colour.BAD),
            (fit(who, 4, "right") + " ", Colour.BAD if one.suspect else Colour.STRONG),
            (fit(model.names.of(row.node.name), self._longest) + " ", Colour.INFO),
            *self._cells(one.lane),
            (fit(still, 7, "right") + " ", Colour.WARN if one.stopped is not None else Colour.DIM),
            (fit(percent(cpu), 5, "right"), Colour.TEXT),
        ]
        gpu = None if silent else model.gpu_of(row)
        if gpu is not None and (sample := row_of(gpu)) is not None:
            pieces.append((fit(number(sample.power), 5, "right") + "W", Colour.TEXT))
        return pieces

    def _cells(self, lane: Lane | None) -> list[Piece]:
        if lane is None:
            return [(" " * self._shown, Colour.DIM)]
        step = MINUTE / self._shown
        values = lane.cells((floor(self.model.now / step) + 1) * step, step, self._shown)
        signs = (_SIGNS[value] for value in values)
        return [("".join(glyph for glyph, _ in run), colour) for colour, run in groupby(signs, lambda sign: sign[1])]
