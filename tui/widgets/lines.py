"""Base of every drawing widget: lines painted on demand, of which only those that changed are sent.

Over a slow link that keeps the screen usable: a tick in which one number of one row changed writes one line.
"""

from __future__ import annotations

from typing import Literal, cast

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.looks.text import cells, fit, harmless
from tui.looks.theme import Background, Colour, HasPalette, Palette

Move = Literal["up", "down", "page_up", "page_down", "first", "last", "left", "right"]
"""Ways to move that keys ask for."""

Piece = tuple[str, Colour]
"""Harmless or remote text, and what it is."""
Content = list[list[Piece]]
"""Lines to read."""


def step_of(how: Move, page: int) -> int:
    """Lines or rows to go for a key; whoever goes stops at the ends."""
    page, far = max(1, page), 1 << 30
    steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -far, "last": far}
    return steps.get(how, 0)


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """A widget of lines. Subclasses say how many there are (:meth:`resize_to`) and paint one (:meth:`paint`).

    It has no keys of its own: the actions of the registry move whatever has the focus.
    """

    class Entered(Message):
        """A row, a group, a box or a cell was clicked twice."""

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
        """Lay out for another size; called at once, for the first size comes after the first drawing."""

    def move(self, how: Move) -> None:
        """Move the cursor, or scroll where there is none."""
        self.scroll_to(y=self.top + step_of(how, self.size.height - 1), animate=False, force=True)

    @property
    def room(self) -> int:
        """Cells of a line that a scrollbar leaves free, whether there is one or not."""
        return max(0, self.size.width - self.styles.scrollbar_size_vertical)

    def resize_to(self, height: int) -> None:
        """Say how many lines there are."""
        if self.virtual_size.height != height:
            self.virtual_size = Size(self.size.width, height)
            if self.styles.height is not None and self.styles.height.is_auto:
                self.refresh(layout=True)

    def redraw(self) -> None:
        """Paint the visible lines anew, and send those that changed."""
        width, height = self.size
        before, self._painted = self._painted, {}
        if width and height:
            changed = [y for y in range(height) if before.get(y) != self.render_line(y)]
            if changed:
                self.refresh(*(Region(0, y, width, 1) for y in changed))

    def repaint(self) -> None:
        """Paint everything anew: colours, size or columns changed."""
        self._painted.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line as it was painted."""
        width = self.size.width
        if width != self._painted_width:  # before the message of the new size is handled
            self._painted, self._painted_width = {}, width
        strip = self._painted.get(y)
        if strip is None:
            strip = self._painted[y] = self.paint(y, width).adjust_cell_length(width, self.palette.of(Colour.TEXT))
        return strip

    def notify_style_update(self) -> None:
        """Colours changed."""
        super().notify_style_update()
        self._painted.clear()

    def on_resize(self) -> None:
        """Lay out for the new size at once; lines that were taken while it was hidden are painted now."""
        self.repaint()
        if self.size.width:
            self.resized()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other lines are visible now."""
        self._painted.clear()
        super().watch_scroll_y(old_value, new_value)

    @property
    def top(self) -> int:
        """First visible content line."""
        return round(self.scroll_y)

    def bring(self, y: int, margin: int = 0) -> None:
        """Scroll so that content line ``y`` is visible below ``margin`` lines that stay."""
        height = self.size.height - margin
        if y < self.top:
            self.scroll_to(y=y, animate=False, force=True)
        elif height > 0 and y >= self.top + height:
            self.scroll_to(y=y - height + 1, animate=False, force=True)


class Bar(Lines, can_focus=False):
    """One or a few lines of pieces: totals above a table, titles."""

    def __init__(self, *, id: str | None = None, ground: Background = Background.PLAIN) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.ground = ground
        self.over: Style | None = None
        """A style over everything: the ground of an alarm."""
        self.content: Content = []

    def show(self, *lines: list[Piece]) -> None:
        """Take the lines and draw what differs."""
        if list(lines) != self.content:
            self.content = list(lines)
            self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        strip = strip_of(self.content[y] if y < len(self.content) else [], width, self.palette, self.ground)
        return strip if self.over is None else Strip(Segment.apply_style(strip, post_style=self.over), width)


def strip_of(pieces: list[Piece], width: int, palette: Palette, ground: Background = Background.PLAIN) -> Strip:
    """Paint pieces side by side and fill up to ``width``, cutting what is over."""
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
    """Cells of pieces side by side."""
    return sum(cells(text) for text, _ in pieces)


def ruled(title: str, right: str, width: int) -> list[Piece]:
    """A title at the left and a hint at the right of a line across; the hint gives way first."""
    line = width - cells(title) - cells(right)
    return [(title, Colour.DIM), ("─" * line + right if line >= 0 else "─" * max(0, width - cells(title)), Colour.DIM)]


def text_of(content: Content) -> str:
    """Lines of pieces as plain text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in content)
