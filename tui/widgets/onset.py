"""Ranks × the last minute, a cell a second: who stopped first stands first, and the others make a wedge below it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import floor
from typing import NamedTuple

from textual.strip import Strip

from hangtop.session.history.history import STILL, WOKE
from hangtop.session.history.lanes import UNSEEN, Lanes
from tui.figures.measure import cpu_percent, row_of
from tui.looks.format import SILENT, UNKNOWN, age, clock, number
from tui.looks.text import cells, fit
from tui.looks.theme import Ground, Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.widgets.lines import Lines, Piece, ruled, strip_of

MINUTE = 60
"""Cells of a second each; on a narrow screen fewer, of two or more seconds."""
AFTER = 15
"""Seconds after the last rank stopped that the minute goes on to when all stand still: the wedge stays on view."""
KEPT = 3000
"""Seconds for which what ranks did is kept (:class:`~hangtop.session.history.lanes.Lane`), less that minute."""
HEAD = 2
"""Lines above the ranks."""
NAME = 14
"""Cells of a node's name at the most."""
_CELLS = {"moves": ("▇", Tone.GRAPH), "wakes": ("▃", Tone.DIM), "still": ("·", Tone.DIM), "unseen": (" ", Tone.DIM)}
_WORDS = ["still" if value == STILL else "wakes" if value <= WOKE else "moves" for value in range(UNSEEN)] + ["unseen"]
_GLYPHS, _TONES = [_CELLS[word][0] for word in _WORDS], [_CELLS[word][1] for word in _WORDS]
"""Of each value that a cell can hold."""


class OnsetRow(NamedTuple):
    """One rank."""

    row: RankRow
    lanes: Lanes | None
    stopped: float | None
    """Since when it stands still."""
    suspect: bool


class Onset(Lines, can_focus=False):
    """The ranks of a job, the first to stop above."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="onset")
        self.scene = scene
        self._rows: list[OnsetRow] = []
        self._longest = 4
        """Cells of the longest name of their nodes."""
        self._end: float | None = None
        """End of the minute that is shown; None is now."""

    def feed(self) -> None:
        """Take the latest and draw."""
        scene, history = self.scene, self.scene.timeline.head.history
        verdict = scene.session.verdict
        hung = verdict is not None and verdict.outcome == "hung" and verdict.findings
        suspects = frozenset(verdict.findings[0].ranks if verdict is not None and hung else ())
        rows = []
        for row in scene.ranks:
            if row.rank.gone_at is None and not scene.strange(row.node, row.rank.process.pid):
                lanes = history.ranks.find(row.node.name, row.rank.process.pid)
                stopped = None if lanes is None else lanes.stopped(scene.now)
                rows.append(OnsetRow(row, lanes, stopped, row.number in suspects))
        rows.sort(key=lambda one: (not one.suspect, one.stopped is None, one.stopped or 0.0, one.row.number))
        self._rows, self._end = rows, _end_of(rows, scene.now, history.began)
        self._longest = min(NAME, max((4, *(cells(scene.names.of(one.row.node.name)) for one in rows))))
        self.resize_to(len(rows) + HEAD)
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self.feed()

    @property
    def _shown(self) -> int:
        """Cells of the last minute."""
        left = self.room - (8 + self._longest + 13 + (6 if self.scene.gpus else 0)) - 1
        return next((count for count in (60, 30, 20, 15, 12) if count <= left), 10)

    @property
    def _until(self) -> float:
        """End of the last cell."""
        step = MINUTE / self._shown
        return (floor((self.scene.now if self._end is None else self._end) / step) + 1) * step

    def paint(self, y: int, width: int) -> Strip:
        """A title, heads, then one rank a line."""
        if y == 0:
            return strip_of(self._title(width), width, self.ink)
        if y == 1:
            told = f"-{MINUTE} s" + fit("", self._shown - 5)
            heads = f"{fit('still', 7, 'right')} {fit('cpu', 5, 'right')}{' power' if self.scene.gpus else ''}"
            text = f" {fit('rank', 5, 'right')} {fit('node', self._longest)} {told}{heads}"
            return strip_of([(text, Tone.DIM)], width, self.ink)
        place = self.top + y - HEAD
        if place >= len(self._rows):
            nobody = " no rank is seen to run" if y == HEAD and not self._rows else ""
            return strip_of([(nobody, Tone.DIM)], width, self.ink)
        one = self._rows[place]
        ground = Ground.STALE if self.scene.stale(one.row.node) else Ground.PLAIN
        return strip_of(self._line(one), width, self.ink, ground)

    def _title(self, width: int) -> list[Piece]:
        """What rows and cells are, and of which minute."""
        now = self._end is None and self.scene.session.live and not self.scene.timeline.told()[0]
        until = "now" if now else clock(self._until if self._end is not None else self.scene.now, millis=False)
        when = f" {clock(self._until - MINUTE, millis=False)} to {until} ─"
        glyphs = ", ".join(f"{glyph} {what}" for what, (glyph, _) in _CELLS.items() if glyph != " ")
        titles = f" ranks, first to stop above: {glyphs} ", " ranks, first to stop above ", " ranks ", ""
        title = next((title for title in titles if cells(title) + cells(when) <= width), "")
        return ruled(title, when, width)

    def _line(self, one: OnsetRow) -> list[Piece]:
        scene, row = self.scene, one.row
        silent = scene.stale(row.node)
        who = str(row.number) if row.number >= 0 else "?"
        pieces: list[Piece] = [
            ("▶ " if one.suspect else "  ", Tone.BAD),
            (fit(who, 4, "right") + " ", Tone.BAD if one.suspect else Tone.STRONG),
            (fit(scene.names.of(row.node.name), self._longest) + " ", Tone.INFO),
            *self._cells(one.lanes),
        ]
        going = SILENT if silent else UNKNOWN if one.lanes is None else "moves"
        still = age(scene.now - one.stopped) if one.stopped is not None else going
        pieces.append((fit(still, 7, "right") + " ", Tone.WARN if one.stopped is not None else Tone.DIM))
        cpu = None if silent else cpu_percent(row.rank, row.node, scene.interval)
        pieces.append((fit("–" if cpu is None else f"{cpu:.0f}%", 5, "right"), Tone.TEXT))
        gpu = None if silent else scene.gpu_of(row)
        if gpu is not None and (sample := row_of(gpu)) is not None:
            pieces.append((fit(number(sample.power), 5, "right") + "W", Tone.TEXT))
        return pieces

    def _cells(self, lanes: Lanes | None) -> list[Piece]:
        shown = self._shown
        if lanes is None:
            return [(" " * shown, Tone.DIM)]
        seen = lanes.cells(self._until, MINUTE / shown, shown)
        return [("".join(map(_GLYPHS.__getitem__, run)), tone) for tone, run in groupby(seen, _TONES.__getitem__)]


def _end_of(rows: Sequence[OnsetRow], now: float, began: float | None) -> float | None:
    """When the minute ends that shows how all ranks came to stand still; None while some move, or just did.

    None also where nobody watched that: ``began`` is when somebody did.
    """
    stopped = [one.stopped for one in rows]
    last = max((at for at in stopped if at is not None), default=None)
    if last is None or None in stopped or began is None or last < began:
        return None
    end = last + AFTER
    return end if end < now < end + KEPT else None
