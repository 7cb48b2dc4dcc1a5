"""The base of all drawing widgets: paints lines on demand, and sends only changed lines.

This keeps the screen usable over a slow link: a tick that changes one number writes one line.
"""

from __future__ import annotations

from typing import Literal, cast

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.looks.text import cells, fit, harmless
from tui.looks.theme import Background, Colour, HasPalette, Palette

Move = Literal["up", "down", "page_up", "page_down", "first", "last", "left", "right"]
"""Moves of cursor or view."""

Piece = tuple[str, Colour]
"""A text (may come from a node) and its colour."""
Content = list[list[Piece]]
"""Lines of text."""


def step_of(how: Move, page: int) -> int:
    """Lines or rows of a move, which may exceed the ends; ``page`` is the size of a page."""
    page, far = max(1, page), 1 << 30
    steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -far, "last": far}
    return steps.get(how, 0)


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """A widget of lines. Subclasses set their number (:meth:`resize_to`) and paint one (:meth:`paint`).

    It binds no keys: actions move the focused widget.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._painted: dict[int, Strip] = {}
        self._painted_width = 0

    @property
    def palette(self) -> Palette:
        """Styles of the present theme."""
        return cast("HasPalette", self.app).palette

    def paint(self, y: int, width: int) -> Strip:
        """Paint the visible line ``y``, ``width`` cells wide."""
        raise NotImplementedError

    def resized(self) -> None:
        """Lay out for a new size; called before the next paint, because the first size comes after the first draw."""

    def move(self, how: Move) -> None:
        """Move the cursor; here, without one, scroll."""
        self.scroll_to(y=self.top + step_of(how, self.size.height - 1), animate=False, force=True)

    @property
    def room(self) -> int:
        """Width of a line without a scrollbar's cells, whether or not there is one."""
        return max(0, self.size.width - self.styles.scrollbar_size_vertical)

    def resize_to(self, height: int) -> None:
        """Set the number of lines."""
        if self.virtual_size.height != height:
            self.virtual_size = Size(self.size.width, height)
            if self.styles.height is not None and self.styles.height.is_auto:
                self.refresh(layout=True)

    def redraw(self) -> None:
        """Paint the visible lines, and send the changed ones."""
        width, height = self.size
        before, self._painted = self._painted, {}
        if width and height:
            changed = [y for y in range(height) if before.get(y) != self.render_line(y)]
            if changed:
                self.refresh(*(Region(0, y, width, 1) for y in changed))

    def repaint(self) -> None:
        """Paint and send everything, after a change of colours, size or columns."""
        self._painted.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The painted line, from the cache if possible."""
        width = self.size.width
        if width != self._painted_width:  # the message of the new size is not handled yet
            self._painted, self._painted_width = {}, width
        strip = self._painted.get(y)
        if strip is None:
            strip = self._painted[y] = self.paint(y, width).adjust_cell_length(width, self.palette.of(Colour.TEXT))
        return strip

    def notify_style_update(self) -> None:
        """Drop painted lines after a change of colours."""
        super().notify_style_update()
        self._painted.clear()

    def on_resize(self) -> None:
        """Repaint and lay out for the new size."""
        self.repaint()
        if self.size.width:
            self.resized()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Drop painted lines after scrolling."""
        self._painted.clear()
        super().watch_scroll_y(old_value, new_value)

    @property
    def top(self) -> int:
        """First visible content line."""
        return round(self.scroll_y)

    def bring(self, y: int, margin: int = 0) -> None:
        """Scroll content line ``y`` into view, below ``margin`` fixed lines."""
        height = self.size.height - margin
        if y < self.top:
            self.scroll_to(y=y, animate=False, force=True)
        elif height > 0 and y >= self.top + height:
            self.scroll_to(y=y - height + 1, animate=False, force=True)


class Bar(Lines, can_focus=False):
    """One or a few fixed lines, such as totals above a table."""

    def __init__(self, *, id: str | None = None, ground: Background = Background.PLAIN) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.ground = ground
        self.over: Style | None = None
        """A style over all lines, for an alarm."""
        self.content: Content = []

    def show(self, *lines: list[Piece]) -> None:
        """Replace the lines and draw the differences."""
        if list(lines) != self.content:
            self.content = list(lines)
            self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        strip = strip_of(self.content[y] if y < len(self.content) else [], width, self.palette, self.ground)
        return strip if self.over is None else Strip(Segment.apply_style(strip, post_style=self.over), width)


def strip_of(pieces: list[Piece], width: int, palette: Palette, ground: Background = Background.PLAIN) -> Strip:
    """Paint pieces side by side, padded or cut to ``width``."""
    styles = palette.styles[ground]
    segments: list[Segment] = []
    left = width
    for raw, colour in pieces:
        if left <= 0:
            break
        text = harmless(raw)
        shown = fit(text, min(left, cells(text)))
        if shown:
            segments.append(Segment(shown, styles[colour]))
            left -= cells(shown)
    if left > 0:
        segments.append(Segment(" " * left, styles[Colour.TEXT]))
    return Strip(segments, width)


def width_of(pieces: list[Piece]) -> int:
    """Width of pieces side by side, in cells."""
    return sum(cells(text) for text, _ in pieces)


def ruled(title: str, right: str, width: int) -> list[Piece]:
    """A horizontal rule with a title at the left and a hint at the right, which is dropped if it does not fit."""
    line = width - cells(title) - cells(right)
    return [(title, Colour.DIM), ("─" * line + right if line >= 0 else "─" * max(0, width - cells(title)), Colour.DIM)]


def text_of(content: Content) -> str:
    """Lines of pieces as plain text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in content)
