"""Base of every drawing widget: lines painted on demand, and only those sent that differ from what is shown.

Over a slow link that is what keeps the screen usable: a tick in which one number of one row changed writes one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from tui.looks.text import cells, fit, harmless
from tui.looks.theme import Ground, Ink, Inked, Tone
from tui.widgets.once import once
from tui.widgets.scrollbar import QuickScrollBar

Move = Literal["up", "down", "page_up", "page_down", "first", "last", "left", "right"]
"""Ways to move that keys ask for."""

Piece = tuple[str, Tone]
"""Harmless or remote text, and what it is."""
Content = list[list[Piece]]
"""Lines to read."""
BAR = 1
"""Cells of a scrollbar."""


class Lines(ScrollView, can_focus=False, inherit_bindings=False):
    """A widget of lines. Subclasses say how many there are (:meth:`resize_to`) and paint one (:meth:`paint`).

    Keys never come here: the application's actions call the methods, so that every key has one owner.
    """

    DEFAULT_CSS = """
    Lines {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-corner-color: $background;
        scrollbar-color: $panel;
        scrollbar-color-hover: $primary;
        scrollbar-color-active: $primary;
        overflow-x: hidden;
    }
    """

    class Entered(Message):
        """A row, a group, a box or a cell was clicked twice."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Strip] = {}
        self._shown = 0
        """Cells of a line that the scrollbar leaves free; what it hides is no use to anybody."""

    @property
    def ink(self) -> Ink:
        """Styles of the present theme."""
        return cast("Inked", self.app).ink

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scrollbar at the right, made when it is first needed."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = QuickScrollBar(self.scrollbar_size_vertical)
            self._vertical_scrollbar.display = False
            self.app._start_widget(self, self._vertical_scrollbar)  # noqa: SLF001 (as Textual's own property does)
        return self._vertical_scrollbar

    def paint(self, y: int, width: int) -> Strip:
        """Paint content line ``y`` (not counting what is scrolled away above), ``width`` cells wide."""
        raise NotImplementedError

    def clear_of_bar(self, width: int) -> int:
        """Cells of a line that the scrollbar leaves."""
        return width - self.scrollbar_size_vertical

    def resize_to(self, width: int, height: int) -> None:
        """Say how large the content is, in cells."""
        if self.virtual_size != (width, height):
            grows = self.styles.height is not None and self.styles.height.is_auto
            self.virtual_size = Size(width, height)
            if grows:
                self.refresh(layout=True)

    def redraw(self, lines: Iterable[int] | None = None) -> None:
        """Paint the visible lines anew, or only those given, and send those that changed."""
        width, height = self.size
        if not width or not height:
            self.forget()  # hidden: when it is shown again, perhaps in its old size, nothing of this is true any more
            return
        if self.show_vertical_scrollbar:
            # while it was not shown, Textual did not tell it where it is
            self.vertical_scrollbar.position = self.scroll_y
        wanted = range(height) if lines is None else sorted({y for y in lines if 0 <= y < height})
        changed = [y for y in wanted if self._painted.get(y) != self._renew(y, width)]
        if len(changed) == height:
            self.refresh()
        elif changed:
            self.refresh(*_regions(changed, width))

    def repaint(self) -> None:
        """Paint everything anew: colours, size or columns changed."""
        self.forget()
        self.refresh()

    def forget(self) -> None:
        """Keep nothing that was painted. Subclasses drop here what they keep of it."""
        self._painted.clear()

    def _renew(self, y: int, width: int) -> Strip:
        strip = self.paint(y, width).adjust_cell_length(width)
        if 0 < self._shown < width:
            strip = _without_end(strip, self._shown)
        strip = self._painted[y] = once(strip)
        return strip

    def render_line(self, y: int) -> Strip:
        """Hand Textual the line that was painted."""
        strip = self._painted.get(y)
        return strip if strip is not None else self._renew(y, self.size.width)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Hand over painted lines as they are.

        Textual would look at padding, borders, tint and opacity for each of them, make a strip of each anew and cut it
        where the scrollbar begins: half the cost of a repaint, and for nothing where there is none of that.
        """
        if self.container_size != self.outer_size:  # a border or padding
            return super().render_lines(crop)
        width, painted = self.size.width, self._painted
        shown = self.clear_of_bar(width)
        if shown != self._shown:
            self._shown = shown
            self._painted.clear()
        strips = [painted.get(y) or self._renew(y, width) for y in crop.line_range]
        filters = self.get_line_filters()
        if filters:
            background = self.background_colors[1]
            for each in filters:
                strips = [strip.apply_filter(each, background) for strip in strips]
        left, right = crop.column_span
        return strips if left == 0 and right >= shown else [once(strip.crop(left, right)) for strip in strips]

    def notify_style_update(self) -> None:
        """Colours changed."""
        super().notify_style_update()
        self.forget()

    def on_resize(self) -> None:
        """Paint for the new size."""
        self.forget()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other lines are visible now."""
        self._painted.clear()
        super().watch_scroll_y(old_value, new_value)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Other columns are visible now."""
        self._painted.clear()
        super().watch_scroll_x(old_value, new_value)

    @property
    def top(self) -> int:
        """First visible content line."""
        return round(self.scroll_y)

    def bring(self, y: int, margin: int = 0) -> None:
        """Scroll so that content line ``y`` is visible."""
        height = self.size.height - margin
        if y < self.top:
            self.scroll_to(y=y, animate=False, force=True)
        elif height > 0 and y >= self.top + height:
            self.scroll_to(y=y - height + 1, animate=False, force=True)


def _without_end(strip: Strip, width: int) -> Strip:
    """The first cells of a longer strip; mostly it is blanks that go."""
    *before, last = strip
    over = strip.cell_length - width
    if len(last.text) > over and last.text.endswith(" " * over):
        return Strip([*before, Segment(last.text[:-over], last.style)], width)
    return strip.crop(0, width)


def _regions(lines: list[int], width: int) -> list[Region]:
    """Join neighbouring lines."""
    regions: list[Region] = []
    for y in lines:
        if regions and regions[-1].bottom == y:
            last = regions[-1]
            regions[-1] = Region(0, last.y, width, last.height + 1)
        else:
            regions.append(Region(0, y, width, 1))
    return regions


def strip_of(pieces: list[Piece], width: int, ink: Ink, ground: Ground = Ground.PLAIN) -> Strip:
    """Paint pieces side by side and fill up to ``width``, cutting what is over."""
    styles = ink.styles[ground]
    segments: list[Segment] = []
    left = width
    for raw, tone in pieces:
        if left <= 0:
            break
        text = harmless(raw)
        shown = fit(text, min(left, cells(text)))
        if shown:
            segments.append(Segment(shown, styles[tone]))
            left -= cells(shown)
    if left > 0:
        segments.append(Segment(" " * left, styles[Tone.TEXT]))
    return Strip(segments, width)


def between(left: list[Piece], right: list[Piece], width: int) -> list[Piece]:
    """Lay ``left`` and ``right`` against their edges; the right side gives way first when both do not fit."""
    used = sum(cells(text) for text, _ in left)
    wanted = sum(cells(text) for text, _ in right)
    gap = width - used - wanted
    if gap < 1:
        return left
    return [*left, (" " * gap, Tone.TEXT), *right]
