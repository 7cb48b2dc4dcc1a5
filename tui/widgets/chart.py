"""The job over time: verdict, figures as lines, what happened as marks, and the moment that is shown."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from hangtop.session.history.history import WORDS
from hangtop.session.history.series import Span
from hangtop.session.state.changes import TimelineMark
from tui.logs.changes import label_of
from tui.looks.format import age
from tui.looks.plot import Stretch, blocks, braille
from tui.looks.signs import change_sign, outcome_sign
from tui.looks.text import cells, fit
from tui.looks.theme import Colour
from tui.timeline import Window
from tui.view_model import ViewModel
from tui.widgets.figures import FIGURES, Figure
from tui.widgets.lines import Lines, Piece, strip_of

LABEL = 15
"""Cells to the left of a chart: its name, what it is now, and its scale."""
SMALL = 8
"""Lines from which on there is a title."""
MOST = 4
"""Lines of a figure."""


class TimeChart(Lines, can_focus=False):
    """Draws as many figures as there is room for."""

    class Scrubbed(Message):
        """A moment was clicked."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="time")
        self.model = model
        self._window = Window(0.0, 1.0, 1)
        self._rows: list[Strip] = []

    def on_click(self, event: events.Click) -> None:
        """Say which moment it was: the middle of a column."""
        column = event.x - LABEL
        if 0 <= column < self._window.columns:
            self.post_message(self.Scrubbed(self._window.begin + self._window.step * (2 * column + 1)))

    def draw(self) -> None:
        """Take the latest figures and draw."""
        width, height = self.size
        if width <= LABEL + 8 or not height:
            self._rows = []
        else:
            self._window = self.model.timeline.window(width - LABEL - 1)
            self._rows = self._lay_out(width, height)
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self.draw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        return self._rows[y] if y < len(self._rows) else strip_of([], width, self.palette)

    # --- what is shown -------------------------------------------------------------------------------------------

    def _lay_out(self, width: int, height: int) -> list[Strip]:
        rows = [self._title(width)] if height >= SMALL else []
        rows.append(self._verdicts(width))
        below = 2 if height >= SMALL else 1
        room = height - len(rows) - below
        shown = self._figures(room)
        if shown:
            each, over = divmod(room, len(shown))
            for place, (figure, spans) in enumerate(shown):
                rows += self._plotted(figure, spans, max(1, min(MOST, each + (place < over))), width)
        rows += [strip_of([], width, self.palette)] * (height - below - len(rows))
        rows.append(self._marked(width))
        if below == 2:
            rows.append(self._axis(width))
        return rows

    def _figures(self, room: int) -> list[tuple[Figure, list[Span | None]]]:
        """Figures that say something, as many as fit: of two lines each where that leaves room for four."""
        window, series = self._window, self.model.timeline.head.history.series
        most = _most(room)
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
        history, timeline = self.model.timeline.head.history, self.model.timeline
        stretches: list[Stretch] = [None if span is None else (span.low, span.high) for span in spans]
        series = history.series[figure.name]
        value = series.newest if timeline.at is None else series.at(timeline.at)
        highest = max((span.high for span in spans if span is not None), default=0.0)
        whole = history.series[figure.of].newest if figure.of else None
        # the latest second is told before it is drawn
        top = max(whole or 0.0, highest) if figure.of else figure.rounded_up(max(highest, value or 0.0))
        draw = blocks if self.model.plain else braille
        lines = draw(stretches, rows, top)
        unit = figure.unit(top)
        now, room = "–" if value is None else unit.text(value), LABEL - 3 - cells(unit.title)
        if whole is not None and rows == 1 and cells(both := f"{now}/{unit.text(whole)}") <= room:
            now = both
        when, strips = "now" if timeline.at is None else "then", []
        for row, line in enumerate(lines):
            if row == 0:
                left, right = unit.title, (unit.text(top) if rows > 1 else now)
            else:
                left, right = (f"{when} {now}" if row == 1 else ""), ("0" if row == rows - 1 else "")
            strips.append(self._line([*_label(left, right, rows, value=row == 1)], [(line, Colour.GRAPH)], width))
        return strips

    def _line(self, label: list[Piece], pieces: list[Piece], width: int) -> Strip:
        """A label, and a line of the chart with the moment that is shown."""
        strip = strip_of([*label, *pieces], width, self.palette)
        at = self.model.timeline.at
        column = None if at is None else self._window.column(at)
        if column is None:
            return strip
        before, here, after = strip.divide([LABEL + column, LABEL + column + 1, width])
        mark = [Segment(text, (style or Style()) + _REVERSE) for text, style, _ in here]
        return Strip([*before, *mark, *after], width)

    def _title(self, width: int) -> Strip:
        timeline = self.model.timeline
        left: list[Piece] = [(" time ", Colour.DIM)]
        moment, where = timeline.told()
        if moment:
            left += [(f"{moment} ", Colour.ACCENT), (f"{where} ", Colour.DIM)]
        right = f" [ ] {timeline.name}  , . scrub  n mark  Space {timeline.toggles} ─"
        used = sum(cells(text) for text, _ in left)
        return strip_of(
            [*left, ("─" * (width - used - cells(right)), Colour.DIM), (right, Colour.DIM)], width, self.palette
        )

    def _verdicts(self, width: int) -> Strip:
        """The worst verdict of each column."""
        window = self._window
        read = self.model.timeline.head.history.series["verdict"].spans
        spans = read(window.begin, 2 * window.step, window.columns)
        pieces: list[Piece] = []
        for span in spans:
            word, colour, _ = (" ", Colour.DIM, 0) if span is None else outcome_sign(WORDS[round(span.high)])
            text = word[0]
            if pieces and pieces[-1][1] == colour:
                pieces[-1] = (pieces[-1][0] + text, colour)
            else:
                pieces.append((text, colour))
        return self._line([(" verdict".ljust(LABEL), Colour.DIM)], pieces, width)

    def _placed(self) -> dict[int, TimelineMark]:
        """Marks by column, of several in one the worst."""
        placed: dict[int, TimelineMark] = {}
        for mark in self.model.timeline.marks:
            column = self._window.column(mark.at)
            known = None if column is None else placed.get(column)
            if column is not None and (known is None or change_sign(mark.kind).rank >= change_sign(known.kind).rank):
                placed[column] = mark
        return placed

    def _marked(self, width: int) -> Strip:
        pieces: list[Piece] = []
        at = 0
        for column, mark in sorted(self._placed().items()):
            pieces += [
                (" " * (column - at), Colour.TEXT),
                (change_sign(mark.kind).glyph, change_sign(mark.kind).colour),
            ]
            at = column + 1
        ends = self.model.timeline.ends
        end = None if ends is None else self._window.column(ends)
        if end is not None and end >= at:
            pieces += [(" " * (end - at), Colour.TEXT), ("▐", Colour.DIM)]
        return self._line([(" events".ljust(LABEL), Colour.DIM)], pieces, width)

    def _axis(self, width: int) -> Strip:
        """How far back it reaches, and names of marks where there is room: first what matters most, then the newest."""
        window, timeline = self._window, self.model.timeline
        names: list[tuple[int, str, Colour]] = []
        placed = sorted(self._placed().items(), key=lambda item: (change_sign(item[1].kind).rank, item[0]))
        for column, mark in reversed(placed):
            name = f"{label_of(mark)} {change_sign(mark.kind).glyph}"
            start = column + 1 - cells(name)
            if start > 8 and all(column < begin - 2 or start > begin + cells(text) + 1 for begin, text, _ in names):
                names.append((start, name, change_sign(mark.kind).colour))
        back = f"-{age(timeline.now - window.begin)}"
        pieces: list[Piece] = [(back, Colour.DIM)]
        at = cells(back)
        for start, name, colour in sorted(names):
            pieces += [(" " * (start - at), Colour.TEXT), (name, colour)]
            at = start + cells(name)
        return self._line([(" " * LABEL, Colour.DIM)], pieces, width)


def _label(left: str, right: str, rows: int, *, value: bool) -> list[Piece]:
    """What stands left of a line of a chart: a name above the value, and the scale at its axis.

    A chart of one line has no scale: its value stands there.
    """
    if rows == 1:
        return [(fit(f" {left}", LABEL - 1 - cells(right)), Colour.DIM), (right + " ", Colour.TEXT)]
    said = fit(f" {left}", LABEL - 1 - cells(right))
    return [(said, Colour.TEXT if value else Colour.DIM), (f"{right}┤" if right else "│", Colour.DIM)]


def _most(room: int) -> int:
    """Figures for which so many lines are enough."""
    return max(1, room // 2) if room >= 4 else room


_REVERSE = Style(reverse=True)
