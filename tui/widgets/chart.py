"""The job over time: verdict, figures as lines, what happened as marks, and the moment that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log, log10
from typing import TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from hangtop.session.history.history import WORDS
from hangtop.session.history.series import Span
from hangtop.session.state.changes import TimelineMark
from tui.looks.format import age, count, size, watts
from tui.looks.signs import sign_of
from tui.looks.text import cells, fit
from tui.looks.theme import Colour
from tui.timeline import Window
from tui.view_model import ViewModel
from tui.widgets.lines import Lines, Piece, ruled, strip_of

LABEL = 16
"""Cells to the left of a chart: its name, and what it is now."""
SMALL = 8
"""Lines from which on there is a title, and each figure has two lines."""

Stretch: TypeAlias = tuple[float, float] | None
"""Least and most of one stretch of time; None where nothing is known."""
BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of the left and the right column of a braille cell, from the bottom up (Unicode block 2800)."""
_REVERSE = Style(reverse=True)


def _short(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 99.5 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the chart, by the name of its series."""

    name: str
    title: str
    text: Callable[[float], str] = _short
    """A value for people, in few cells."""
    of: str = ""
    """The series whose newest value is the top of the scale."""
    always: bool = True
    """Shown also where it has been zero all the time."""


FIGURES = (
    Figure("moving", "moving", of="alive"),
    Figure("steps", "steps/s"),
    Figure("power", "GPUs", watts),
    Figure("ports", "IB/s", size, always=False),
    Figure("network", "net/s", size),
    Figure("retransmitted", "resent/s", count, always=False),
    Figure("utilisation", "GPU %"),
    Figure("gpu_memory", "GPU mem", size),
    Figure("memory", "memory", size),
)
"""The most telling first."""


class TimeChart(Lines, can_focus=False):
    """Draws as many figures as there is room for."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="time")
        self.model = model
        self._window = Window(0.0, 1.0, 1)
        self._rows: list[Strip] = []

    def draw(self) -> None:
        """Take the latest figures and draw."""
        width, height = self.size
        self._rows = []
        if width > LABEL + 8 and height:
            self._window = self.model.timeline.window(width - LABEL - 1)
            self._rows = self._lay_out(width, height)
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self.draw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        return self._rows[y] if y < len(self._rows) else strip_of([], width, self.palette)

    def _lay_out(self, width: int, height: int) -> list[Strip]:
        large = height >= SMALL
        rows = [self._title(width)] if large else []
        rows.append(self._verdicts(width))
        room = height - len(rows) - 1
        for figure, spans in self._figures(room // 2 if large else room):
            rows += self._plotted(figure, spans, 2 if large else 1, width)
        rows += [strip_of([], width, self.palette)] * (height - 1 - len(rows))
        return [*rows, self._marked(width)]

    def _figures(self, most: int) -> list[tuple[Figure, list[Span | None]]]:
        """Figures that say something."""
        window, series = self._window, self.model.timeline.head.history.series
        found: list[tuple[Figure, list[Span | None]]] = []
        for figure in FIGURES:
            if len(found) == most:
                break
            spans = series[figure.name].spans(window.begin, window.step, 2 * window.columns)
            seen = [span for span in spans if span is not None]
            if seen and (figure.always or any(span.high > 0 for span in seen)):
                found.append((figure, spans))
        return found

    def _plotted(self, figure: Figure, spans: list[Span | None], rows: int, width: int) -> list[Strip]:
        """Name and value left of the line; where that has two rows the top of its scale below."""
        history, at = self.model.timeline.head.history, self.model.timeline.at
        series = history.series[figure.name]
        value = series.newest if at is None else series.at(at)
        highest = max((span.high for span in spans if span is not None), default=0.0)
        whole = history.series[figure.of].newest if figure.of else None
        top = (
            max(whole, highest)
            if whole is not None
            else (rounded_up(max(highest, value or 0.0), binary=figure.text is size))
        )
        now = "–" if value is None else figure.text(value)
        labels = [(figure.title, now), (f"of {figure.text(top)}", "")]
        if whole is not None and rows == 1:
            labels = [(figure.title, f"{now}/{figure.text(whole)}")]
        strips = []
        lines = braille([None if span is None else (span.low, span.high) for span in spans], rows, top)
        for (left, right), line in zip(labels, lines, strict=False):
            label: list[Piece] = [(fit(f" {left}", LABEL - 1 - cells(right)), Colour.DIM), (f"{right} ", Colour.TEXT)]
            strips.append(self._line([*label, (line, Colour.GRAPH)], width))
        return strips

    def _line(self, pieces: list[Piece], width: int) -> Strip:
        """A label, and a line of the chart with the moment that is shown."""
        strip = strip_of(pieces, width, self.palette)
        at = self.model.timeline.at
        column = None if at is None else self._window.column(at)
        if column is None:
            return strip
        before, here, after = strip.divide([LABEL + column, LABEL + column + 1, width])
        mark = [Segment(text, (style or Style()) + _REVERSE) for text, style, _ in here]
        return Strip([*before, *mark, *after], width)

    def _title(self, width: int) -> Strip:
        timeline = self.model.timeline
        moment, where = timeline.told()
        shown = f"{moment}, {where} " if moment else ""
        keys = f" [ ] {timeline.name}  , . scrub  n mark  Space {timeline.toggles} ─"
        return strip_of(ruled(f" time {shown}", keys, width), width, self.palette)

    def _verdicts(self, width: int) -> Strip:
        """The worst verdict of each column, by its first letter."""
        window = self._window
        read = self.model.timeline.head.history.series["verdict"].spans
        pieces: list[Piece] = [(" verdict".ljust(LABEL), Colour.DIM)]
        for span in read(window.begin, 2 * window.step, window.columns):
            sign = None if span is None else sign_of(WORDS[round(span.high)])
            pieces.append((" ", Colour.DIM) if sign is None else (sign.glyph, sign.colour))
        return self._line(pieces, width)

    def _marked(self, width: int) -> Strip:
        """How far back it reaches, and what happened; of several in one column the worst."""
        placed: dict[int, TimelineMark] = {}
        for mark in self.model.timeline.marks:
            column = self._window.column(mark.at)
            if column is not None and (
                column not in placed or sign_of(mark.kind).rank >= sign_of(placed[column].kind).rank
            ):
                placed[column] = mark
        back = f"-{age(self.model.timeline.now - self._window.begin)} "
        pieces: list[Piece] = [(fit(" events", LABEL - cells(back)), Colour.DIM), (back, Colour.DIM)]
        at = 0
        for column, mark in sorted(placed.items()):
            sign = sign_of(mark.kind)
            pieces += [(" " * (column - at), Colour.TEXT), (sign.glyph, sign.colour)]
            at = column + 1
        return self._line(pieces, width)


def braille(stretches: Sequence[Stretch], rows: int, top: float) -> list[str]:
    """Draw a line from 0 to ``top``, two stretches a cell; the first text is the uppermost of ``rows``."""
    drawn = [[BRAILLE] * ((len(stretches) + 1) // 2) for _ in range(rows)]
    before: tuple[int, int] | None = None
    for place, stretch in enumerate(stretches):
        if stretch is None:
            before = None
            continue
        low, high = _level(stretch[0], top, 4 * rows), _level(stretch[1], top, 4 * rows)
        # what lies between two values is drawn, so that a step is a line
        first, last = (low, high) if before is None else (min(low, before[1]), max(high, before[0]))
        before = low, high
        for level in range(first, last + 1):
            drawn[rows - 1 - level // 4][place // 2] |= _DOTS[place % 2][level % 4]
    return ["".join(map(chr, row)) for row in drawn]


def _level(value: float, top: float, levels: int) -> int:
    """Which of so many heights a value has."""
    return max(0, min(levels - 1, int(value / top * (levels - 1) + 0.5))) if top > 0 else 0


def rounded_up(value: float, *, binary: bool = False) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: the top of a scale that does not move all the time.

    Of bytes (``binary``) such a number of their prefix.
    """
    if value <= 0:
        return 1.0
    unit = 1024.0 ** max(0, floor(log(value, 1024))) if binary else 1.0
    value /= unit
    power = 10.0 ** floor(log10(value))
    top = next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * power >= value * (1 - 1e-9))
    return unit * (min(top, 1024) if binary else top)
