"""Ranks × the last minute, a cell a second: who stopped first stands first, and the others make a wedge below it."""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from textual.strip import Strip

from hangtop.session.history.history import STILL, WOKE
from hangtop.session.history.lanes import FULL, UNSEEN, Lanes
from tui.format import age, number, spark
from tui.measure import cpu_percent, row_of
from tui.scene import RankRow, Scene
from tui.text import cells, fit
from tui.theme import Ground, Tone
from tui.widgets.lines import Lines, Piece, strip_of

MINUTE = 60
"""Cells of a second each; fewer on a narrow screen, of which none is left out: then they are of two or more seconds."""
TREND = 20
"""Cells of a GPU's power."""
_CELLS = {"moved": ("▇", Tone.GRAPH), "woke": ("▃", Tone.DIM), "still": ("·", Tone.DIM), "unseen": (" ", Tone.DIM)}


class OnsetRow(NamedTuple):
    """One rank."""

    row: RankRow
    lanes: Lanes | None
    stopped: float | None
    """Since when it stands still."""
    suspect: bool


class Onset(Lines):
    """The ranks of a small job, the first to stop above."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="onset")
        self.scene = scene
        self._rows: list[OnsetRow] = []

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
                lanes = history.ranks.get((row.node.name, row.rank.process.pid))
                stopped = None if lanes is None else lanes.stopped(now)
                rows.append(OnsetRow(row, lanes, stopped, row.number in suspects))
        rows.sort(key=_order)
        self._rows = rows
        self.resize_to(self.size.width, len(rows) + 1)
        self.redraw()

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then one rank a line."""
        cells_shown, trend, name = self._measured(width)
        if y == 0:
            return self._title(width, name, cells_shown)
        place = self.top + y - 1
        if place >= len(self._rows):
            return strip_of([], width, self.ink)
        return self._line(self._rows[place], width, (cells_shown, trend, name))

    def _measured(self, width: int) -> tuple[int, bool, int]:
        """Cells of the last minute, whether GPU power fits, and cells of a node's name."""
        name = min(14, max((cells(each.row.node.name) for each in self._rows), default=4))
        left = width - (2 + 5 + name + 1) - 8 - 6 - 6
        shown = next((count for count in (60, 30, 20, 15, 12) if count <= left), 10)
        return shown, left - shown >= TREND + 2, name

    def _title(self, width: int, name: int, shown: int) -> Strip:
        each = f"{MINUTE // shown} s a cell" if shown < MINUTE else "1 s a cell"
        text = f" rank{' ' * (name + 3)}last {MINUTE} s, {each} "
        words = "first to stop above "
        return strip_of(
            [(text, Tone.DIM), ("─" * max(0, width - cells(text) - len(words) - 2), Tone.DIM), (f" {words}", Tone.DIM)],
            width, self.ink,
        )  # fmt: skip

    def _line(self, each: OnsetRow, width: int, measured: tuple[int, bool, int]) -> Strip:
        shown, trend, name = measured
        scene, row = self.scene, each.row
        ground = Ground.STALE if scene.stale(row.node) else Ground.PLAIN
        tone = Tone.BAD if each.suspect else Tone.STRONG
        who = str(row.number) if row.number >= 0 else "?"
        pieces: list[Piece] = [
            ("▶ " if each.suspect else "  ", Tone.BAD),
            (fit(who, 4, "right") + " ", tone),
            (fit(row.node.name, name) + " ", Tone.INFO),
            *self._cells(each.lanes, shown),
        ]
        still = age(scene.now - each.stopped) if each.stopped is not None else "moves"
        pieces.append((fit(still, 7, "right") + " ", Tone.WARN if each.stopped is not None else Tone.DIM))
        cpu = cpu_percent(row.rank, row.node, scene.interval)
        pieces.append((fit("–" if cpu is None else f"{cpu:.0f}%", 5, "right"), Tone.TEXT))
        gpu = scene.gpu_of(row)
        sample = None if gpu is None else row_of(gpu)
        if gpu is not None and sample is not None:
            pieces.append((fit(number(sample.power), 5, "right") + "W", Tone.TEXT))
            lanes = scene.timeline.head.history.gpus.get((row.node.name, gpu.index))
            if trend and lanes is not None:
                seen = lanes.cells(floor(scene.now) + 1.0, MINUTE / TREND, TREND)
                shares: list[float | None] = [None if value == UNSEEN else value / FULL for value in seen]
                pieces.append((" " + spark(shares, 1.0, TREND), Tone.GRAPH))
        return strip_of(pieces, width, self.ink, ground)

    def _cells(self, lanes: Lanes | None, shown: int) -> list[Piece]:
        if lanes is None:
            return [(" " * shown, Tone.DIM)]
        step = MINUTE / shown
        end = (floor(self.scene.now / step) + 1) * step
        pieces: list[Piece] = []
        for value in lanes.cells(end, step, shown):
            what = "unseen" if value == UNSEEN else "still" if value == STILL else "woke" if value <= WOKE else "moved"
            glyph, tone = _CELLS[what]
            if pieces and pieces[-1][1] == tone:
                pieces[-1] = (pieces[-1][0] + glyph, tone)
            else:
                pieces.append((glyph, tone))
        return pieces


def _order(each: OnsetRow) -> tuple[bool, bool, float, int]:
    return not each.suspect, each.stopped is None, each.stopped or 0.0, each.row.number
