"""Ranks × the last minute, a cell a second: who stopped first stands first, and the others make a wedge below it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import floor
from typing import NamedTuple

from textual.strip import Strip

from hangtop.session.history.history import STILL, WOKE
from hangtop.session.history.lanes import FULL, UNSEEN, Lanes
from tui.figures.measure import cpu_percent, row_of
from tui.looks.format import SILENT, UNKNOWN, age, clock, number, spark
from tui.looks.text import cells, fit
from tui.looks.theme import Ground, Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.widgets.lines import Lines, Piece, strip_of

MINUTE = 60
"""Cells of a second each; fewer on a narrow screen, of which none is left out: then they are of two or more seconds."""
AFTER = 15
"""Seconds after the last rank stopped that the minute goes on to when all stand still: the wedge stays on view."""
KEPT = 3000
"""Seconds for which what ranks did is kept (:class:`~hangtop.session.history.lanes.Lanes`), less that minute."""
TREND = 20
"""Cells of a GPU's power."""
HEAD = 2
"""Lines above the ranks."""
NOBODY = "no rank is seen to run"
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


class Onset(Lines):
    """The ranks of a job, the first to stop above."""

    def __init__(self, scene: Scene, name: str = "onset") -> None:
        super().__init__(id=name)
        self.scene = scene
        self._rows: list[OnsetRow] = []
        self._name_cells = 4
        """Cells of the longest name of their nodes."""
        self._end: float | None = None
        """End of the minute that is shown; None is now."""

    @property
    def _now(self) -> bool:
        """Whether the minute ends now: not at a moment of the past, nor in a recording."""
        return self._end is None and self.scene.session.live and not self.scene.timeline.told()[0]

    def feed(self) -> None:
        """Take the latest and draw."""
        scene, history = self.scene, self.scene.timeline.head.history
        verdict = scene.session.verdict
        hung = verdict is not None and verdict.outcome == "hung" and verdict.findings
        suspects = frozenset(verdict.findings[0].ranks if verdict is not None and hung else ())
        now = scene.now
        rows = []
        for row in scene.ranks:
            if row.rank.gone_at is None and not scene.strange(row.node, row.rank.process.pid):
                lanes = history.ranks.find(row.node.name, row.rank.process.pid)
                stopped = None if lanes is None else lanes.stopped(now)
                rows.append(OnsetRow(row, lanes, stopped, row.number in suspects))
        rows.sort(key=_order)
        self._rows, self._end = rows, _end_of(rows, now, history.began)
        nodes = {each.row.node.name for each in rows}
        self._name_cells = min(NAME, max((4, *(cells(scene.names.of(node)) for node in nodes))))
        self.resize_to(self.size.width, len(rows) + HEAD)
        self.redraw()

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, heads, then one rank a line."""
        cells_shown, trend, name = self._measured(width)
        if y == 0:
            return self._title(width, cells_shown)
        if y == 1:
            return self._heads(width, name, cells_shown, trend=trend)
        place = self.top + y - HEAD
        if place >= len(self._rows):
            nobody = f" {NOBODY}" if y == HEAD and not self._rows else ""
            return strip_of([(nobody, Tone.DIM)], width, self.ink)
        return self._line(self._rows[place], width, (cells_shown, trend, name))

    def _measured(self, width: int) -> tuple[int, bool, int]:
        """Cells of the last minute, whether GPU power fits, and cells of a node's name."""
        name = self._name_cells
        left = width - self._beside(name) - 1
        shown = next((count for count in (60, 30, 20, 15, 12) if count <= left), 10)
        return shown, self._powered and left - shown >= TREND + 2, name

    @property
    def _powered(self) -> bool:
        """Whether there is a GPU, and so its power."""
        return bool(self.scene.gpus)

    def _beside(self, name: int) -> int:
        """Cells of a line but for the minute: mark, rank and node, and since when, CPU and power."""
        return (2 + 5 + name + 1) + 8 + 5 + (6 if self._powered else 0)

    def filled(self, width: int) -> int:
        """Of so many cells those that lines fill; the last one is the scrollbar's."""
        shown, trend, name = self._measured(width)
        return min(width, self._beside(name) + shown + (TREND + 2 if trend else 0) + 1)

    def _title(self, width: int, shown: int) -> Strip:
        """What rows and cells are, and of which minute."""
        end = self._until(shown)
        until = "now" if self._now else clock(end if self._end is not None else self.scene.now, millis=False)
        when = f" {clock(end - MINUTE, millis=False)} to {until} ─"
        rows, each = "ranks, first to stop above", f"{MINUTE // shown} s a cell"
        glyphs = ", ".join(f"{glyph} {what}" for what, (glyph, _) in _CELLS.items() if glyph != " ")
        titles = f" {rows}, {each}: {glyphs} ", f" {rows}, {each} ", f" {rows} ", " ranks ", ""
        title = next((title for title in titles if cells(title) + cells(when) <= width), "")
        line = "─" * max(0, width - cells(title) - cells(when))
        return strip_of([(f"{title}{line}{when}", Tone.DIM)], width, self.ink)

    def _until(self, shown: int) -> float:
        """End of the last of so many cells."""
        step = MINUTE / shown
        return (floor((self.scene.now if self._end is None else self._end) / step) + 1) * step

    def _heads(self, width: int, name: int, shown: int, *, trend: bool) -> Strip:
        left, right = f"-{MINUTE} s", "now" if self._now else ""
        told = left + fit(right, shown - cells(left), "right")
        power = f" {fit(f'power {MINUTE} s', TREND)}" if trend else ""
        power = fit("power", 6, "right") + power if self._powered else ""
        heads = f"{fit('still', 7, 'right')} {fit('cpu', 5, 'right')}{power}"
        text = f" {fit('rank', 5, 'right')} {fit('node', name)} {fit(told, shown)}{heads}"
        return strip_of([(text, Tone.DIM)], width, self.ink)

    def _line(self, each: OnsetRow, width: int, measured: tuple[int, bool, int]) -> Strip:
        shown, trend, name = measured
        scene, row = self.scene, each.row
        silent = scene.stale(row.node)
        ground = Ground.STALE if silent else Ground.PLAIN
        tone = Tone.BAD if each.suspect else Tone.STRONG
        who = str(row.number) if row.number >= 0 else "?"
        pieces: list[Piece] = [
            ("▶ " if each.suspect else "  ", Tone.BAD),
            (fit(who, 4, "right") + " ", tone),
            (fit(scene.names.of(row.node.name), name) + " ", Tone.INFO),
            *self._cells(each.lanes, shown),
        ]
        going = SILENT if silent else UNKNOWN if each.lanes is None else "moves"
        still = age(scene.now - each.stopped) if each.stopped is not None else going
        pieces.append((fit(still, 7, "right") + " ", Tone.WARN if each.stopped is not None else Tone.DIM))
        cpu = None if silent else cpu_percent(row.rank, row.node, scene.interval)
        pieces.append((fit("–" if cpu is None else f"{cpu:.0f}%", 5, "right"), Tone.TEXT))
        gpu = None if silent else scene.gpu_of(row)
        sample = None if gpu is None else row_of(gpu)
        if gpu is not None and sample is not None:
            pieces.append((fit(number(sample.power), 5, "right") + "W", Tone.TEXT))
            lanes = scene.timeline.head.history.gpus.find(row.node.name, gpu.index)
            if trend and lanes is not None:
                seen = lanes.cells(floor(scene.now) + 1.0, MINUTE / TREND, TREND)
                shares: list[float | None] = [None if value == UNSEEN else value / FULL for value in seen]
                pieces.append((" " + spark(shares, 1.0, TREND), Tone.GRAPH))
        return strip_of(pieces, width, self.ink, ground)

    def _cells(self, lanes: Lanes | None, shown: int) -> list[Piece]:
        if lanes is None:
            return [(" " * shown, Tone.DIM)]
        seen = lanes.cells(self._until(shown), MINUTE / shown, shown)
        return [("".join(map(_GLYPHS.__getitem__, run)), tone) for tone, run in groupby(seen, _TONES.__getitem__)]


def _end_of(rows: Sequence[OnsetRow], now: float, began: float | None) -> float | None:
    """When the minute ends that shows how all ranks came to stand still; None while some move, or just did.

    None also where nobody watched that: ``began`` is when somebody did.
    """
    stopped = [each.stopped for each in rows]
    last = max((at for at in stopped if at is not None), default=None)
    if last is None or None in stopped or began is None or last < began:
        return None
    end = last + AFTER
    return end if end < now < end + KEPT else None


def _order(each: OnsetRow) -> tuple[bool, bool, float, int]:
    return not each.suspect, each.stopped is None, each.stopped or 0.0, each.row.number
