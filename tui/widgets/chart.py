"""The job over time: verdicts, figures as bars, events as marks, and the shown moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log, log10

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from hangtop.session.history import WORDS, Span
from hangtop.session.state import Change
from tui.looks.format import age, size, thousands, watts
from tui.looks.signs import sign_of
from tui.looks.text import cells, fit
from tui.looks.theme import Colour
from tui.timeline import Window
from tui.view_model import ViewModel
from tui.widgets.lines import Lines, Piece, ruled, strip_of

LABEL = 16
"""Cells to the left of a chart, for its name and value."""
SMALL = 8
"""Height from which there is a title, and each figure has several lines."""
FEW = 4
"""Figures that are shown before any gets more than two lines."""
BLOCKS = " ▁▂▃▄▅▆▇█"
"""Bars from zero to eight eighths of a line (Unicode block 2580)."""
_REVERSE = Style(reverse=True)


def _short(value: float) -> str:
    """A number in about three digits."""
    return f"{value:.0f}" if value >= 99.5 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the chart."""

    name: str
    title: str
    text: Callable[[float], str] = _short
    """Formats a value in few cells."""
    of: str = ""
    """Name of the series whose newest value is the top of the scale."""
    always: bool = True
    """Also shown if all values are zero."""


FIGURES = (
    Figure("moving", "moving", of="alive"),
    Figure("steps", "steps/s"),
    Figure("power", "GPUs", watts),
    Figure("ports", "IB/s", size, always=False),
    Figure("network", "net/s", size),
    Figure("retransmitted", "retransm/s", thousands, always=False),
    Figure("utilisation", "GPU %"),
    Figure("gpu_memory", "GPU mem", size),
    Figure("memory", "memory", size),
)
"""The most important figure first."""


class TimeChart(Lines, can_focus=False):
    """The chart: draws as many figures as fit."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="time")
        self.model = model
        self._window = Window(0.0, 1.0, 1)
        self._rows: list[Strip] = []

    def draw(self) -> None:
        """Lay out the latest figures and draw."""
        width, height = self.size
        self._rows = []
        if width > LABEL + 8 and height:
            self._window = self.model.timeline.window(width - LABEL - 1)
            self._rows = self._lay_out(width, height)
        self.redraw()

    def resized(self) -> None:
        """Draw for the new size."""
        self.draw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        return self._rows[y] if y < len(self._rows) else strip_of([], width, self.palette)

    def _lay_out(self, width: int, height: int) -> list[Strip]:
        large = height >= SMALL
        rows = [self._title(width)] if large else []
        rows.append(self._verdicts(width))
        room = height - len(rows) - 1
        lines = 1 if not large else max(2, room // FEW)
        for figure, spans in self._figures(room // lines):
            rows += self._plotted(figure, spans, lines, width)
        rows += [strip_of([], width, self.palette)] * (height - 1 - len(rows))
        return [*rows, self._marked(width)]

    def _figures(self, most: int) -> list[tuple[Figure, list[Span | None]]]:
        """The first ``most`` figures with data."""
        window, series = self._window, self.model.timeline.head.history.series
        found: list[tuple[Figure, list[Span | None]]] = []
        for figure in FIGURES:
            if len(found) == most:
                break
            spans = series[figure.name].spans(window.begin, window.step, window.columns)
            seen = [span for span in spans if span is not None]
            if seen and (figure.always or any(span.high > 0 for span in seen)):
                found.append((figure, spans))
        return found

    def _plotted(self, figure: Figure, spans: list[Span | None], rows: int, width: int) -> list[Strip]:
        """Name and value to the left of the bars; if the bars have several lines, with the top of the scale below."""
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
        labels = [(figure.title, now), (f"of {figure.text(top)}", ""), *[("", "")] * (rows - 2)]
        if whole is not None and rows == 1:
            labels = [(figure.title, f"{now}/{figure.text(whole)}")]
        strips = []
        lines = bars([None if span is None else span.mean for span in spans], rows, top)
        for (left, right), line in zip(labels, lines, strict=False):
            label: list[Piece] = [(fit(f" {left}", LABEL - 1 - cells(right)), Colour.DIM), (f"{right} ", Colour.TEXT)]
            strips.append(self._line([*label, (line, Colour.GRAPH)], width))
        return strips

    def _line(self, pieces: list[Piece], width: int) -> Strip:
        """A line of the chart with its label; the shown moment is reversed."""
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
        moment, where = timeline.moment_texts()
        shown = f"{moment}, {where} " if moment else ""
        toggles = "pause" if timeline.at is None else "back to the newest"
        keys = f" [ ] {timeline.name}  , . scrub  Space {toggles} ─"
        return strip_of(ruled(f" time {shown}", keys, width), width, self.palette)

    def _verdicts(self, width: int) -> Strip:
        """The glyph of the worst verdict in each column."""
        window = self._window
        read = self.model.timeline.head.history.series["verdict"].spans
        pieces: list[Piece] = [(" verdict".ljust(LABEL), Colour.DIM)]
        for span in read(window.begin, window.step, window.columns):
            sign = None if span is None else sign_of(WORDS[round(span.high)])
            pieces.append((" ", Colour.DIM) if sign is None else (sign.glyph, sign.colour))
        return self._line(pieces, width)

    def _marked(self, width: int) -> Strip:
        """The line of events: the worst event of each column, and the age of the first column."""
        placed: dict[int, Change] = {}
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


def bars(values: Sequence[float | None], rows: int, top: float) -> list[str]:
    """Bars, one per cell, from 0 to ``top`` in steps of an eighth of a line, as ``rows`` texts from top to bottom.

    A value above zero gets at least one eighth, None gets no bar. The uppermost eighth stays free, so that bars do not
    touch the chart above.
    """
    steps = len(BLOCKS) - 1
    most = steps * rows - 1
    heights = [0 if not value or top <= 0 else max(1, round(min(1.0, value / top) * most)) for value in values]
    return [
        "".join(BLOCKS[max(0, min(steps, height - steps * below))] for height in heights)
        for below in reversed(range(rows))
    ]


def rounded_up(value: float, *, binary: bool = False) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: the top of a scale that rarely changes.

    ``binary``: such a number times a power of 1024.
    """
    if value <= 0:
        return 1.0
    unit = 1024.0 ** max(0, floor(log(value, 1024))) if binary else 1.0
    value /= unit
    power = 10.0 ** floor(log10(value))
    top = next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * power >= value * (1 - 1e-9))
    return unit * (min(top, 1024) if binary else top)
