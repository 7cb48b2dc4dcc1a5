"""The log view: lines of many files merged by time, each rank in its colour, following or paused."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from hangtop.diagnosis.phrasing import count, listed
from tui.logs.line import SEVERITIES, LogLine
from tui.logs.logbook import LogBook
from tui.looks.text import cells, fit, harmless, line_of
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Lines, Move, step_of, strip_of

SIDEWAYS = 20
"""Cells by which ``left`` and ``right`` scroll the text."""
WHO = 12
"""Most cells of a rank or node name."""

_GLYPHS = ((" ", Colour.TEXT), ("▲", Colour.WARN), ("✖", Colour.BAD))


class LogView(Lines):
    """Draws a :class:`LogBook`. While it follows, the cursor is on the newest line; moving up stops following."""

    def __init__(self, book: LogBook) -> None:
        super().__init__(id="log")
        self.book = book
        self.empty = ""
        """Text without any line."""
        self.following = True
        self.unseen = 0
        """New lines since it stopped following."""
        self._at: LogLine | None = None
        self._left = 0
        self._last_place = 0
        self._who = 2

    def feed(self, new: int) -> None:
        """Note ``new`` lines at the end of the book, and draw."""
        shown = self.book.shown
        if new:
            self._who = max(self._who, *(cells(line.writer) for line in shown[-new:]))
        self.resize_to(len(shown))
        if self.following:
            self._at = shown[-1] if shown else None
            self.scroll_to(y=max(0, len(shown) - self.size.height), animate=False, force=True)
        else:
            self.unseen += new
            self._hold()
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self.feed(0)

    def _hold(self) -> None:
        """Keep the view in place while old lines are dropped and late lines are inserted."""
        if self._at is not None:
            place = self.book.place(self._at)
            if place != self._last_place:
                self.scroll_to(y=self.top + place - self._last_place, animate=False, force=True)
            self._last_place = place

    @property
    def cursor(self) -> int:
        """Index of the line under the cursor."""
        last = len(self.book.shown) - 1
        return last if self._at is None else max(0, min(last, self.book.place(self._at)))

    @property
    def current(self) -> LogLine | None:
        """The line under the cursor."""
        shown = self.book.shown
        return shown[self.cursor] if shown else None

    # --- moving --------------------------------------------------------------------------------------------------

    def move(self, how: Move) -> None:
        """Move the cursor, or the text with ``left`` and ``right``; ``last`` follows again."""
        if how in ("left", "right"):
            self._left = max(0, self._left + (SIDEWAYS if how == "right" else -SIDEWAYS))
            self.repaint()
        elif how == "last":
            self.following, self.unseen = True, 0
            self.feed(0)
        else:
            self.go(self.cursor + step_of(how, self.size.height - 1))

    def go(self, place: int) -> None:
        """Put the cursor on a line, and stop following."""
        shown = self.book.shown
        if not shown:
            return
        place = max(0, min(len(shown) - 1, place))
        if self.following:
            self.following, self.unseen = False, 0
        self._at, self._last_place = shown[place], place
        self.bring(place)
        self.redraw()

    def jump(self, place: int) -> None:
        """Put the cursor on a line, with the lines after it in view: for a traceback, the error."""
        self.bring(min(len(self.book.shown) - 1, place + self.size.height // 2))
        self.go(place)

    def changed(self) -> None:
        """Draw after a change of the filter."""
        self.unseen = 0
        if self._at is not None:
            self._last_place = self.book.place(self._at)
        self.resize_to(len(self.book.shown))
        if self.following:
            self.feed(0)
        else:
            self.bring(self.cursor)
        self.repaint()

    # --- drawing -------------------------------------------------------------------------------------------------

    def paint(self, y: int, width: int) -> Strip:
        """One line of the log."""
        place, shown = self.top + y, self.book.shown
        if place >= len(shown):
            nothing = "" if shown else line_of(self._nothing(), width, y - 1)
            return strip_of([(nothing, Colour.DIM)], width, self.palette)
        line, at_cursor = shown[place], place == self.cursor and not self.following
        styles = self.palette.styles[Background.CURSOR if at_cursor else Background.PLAIN]
        glyph, colour = _GLYPHS[line.severity]
        hue = styles[Colour.INFO] if line.rank is None else styles[Colour.TEXT] + self.palette.hue(line.rank)
        head = [
            Segment("▌" if at_cursor else " ", styles[Colour.ACCENT]),
            Segment(line.time + " ", styles[Colour.DIM]),
            Segment(fit(line.writer, min(WHO, self._who), "right"), hue),
            Segment(f" {glyph} ", styles[colour]),
        ]
        used = sum(cells(segment.text) for segment in head)
        text = fit(harmless(line.text)[self._left :], width - used)
        style = styles[Colour.TEXT if line.severity < 2 else Colour.STRONG]
        return Strip([*head, Segment(text, style)])

    def _nothing(self) -> str:
        if self.book.lines:
            wanted = [f"“{self.book.filter.text}”"] if self.book.filter.text else []
            wanted += [f"severity {SEVERITIES[self.book.lowest]}"] if self.book.lowest else []
            return f"none of {count(len(self.book.lines), 'line')} passes {listed(wanted)}"
        return self.empty

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked line."""
        if self.top + event.y < len(self.book.shown):
            self.go(self.top + event.y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following after scrolling away from the end with the wheel or the scrollbar."""
        super().watch_scroll_y(old_value, new_value)
        if self.following and new_value < min(old_value, self.max_scroll_y):
            self.following, self.unseen = False, 0
            self._last_place = self.cursor
