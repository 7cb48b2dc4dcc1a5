"""A scrollbar that is drawn in one go."""

from __future__ import annotations

from typing import cast

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip


class QuickScrollBar(ScrollBar):
    """Textual's upright one. By way of borders, opacity and the like it would take as long as the lines beside it."""

    def __init__(self, thickness: int) -> None:
        super().__init__(vertical=True, name="vertical", thickness=thickness)
        self._drawn: tuple[tuple[object, ...], list[Strip]] = ((), [])

    def render_lines(self, crop: Region) -> list[Strip]:
        """All lines anew when it has moved, grown, or changed its colours."""
        state = (self.outer_size, self.window_virtual_size, self.window_size, self.position)
        look = (*state, self.mouse_over, self.grabbed is not None, self.app.theme)
        if look != self._drawn[0]:
            self._drawn = look, self._strips(self.outer_size.height)
        strips = self._drawn[1][crop.y : crop.bottom]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, self.background_colors[1]) for strip in strips]
        return strips

    def _strips(self, height: int) -> list[Strip]:
        bar = cast("ScrollBarRender", self.render())
        style = cast("Style", bar.style)
        assert style.bgcolor is not None
        assert style.color is not None
        segments = bar.render_bar(
            size=height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=self.thickness,
            back_color=style.bgcolor,
            bar_color=style.color,
        ).segments
        ground = Style(bgcolor=self.background_colors[1].rich_color)
        few = {id(segment): segment for segment in segments}  # the same again and again
        strips = {
            which: Strip([Segment(text, ground + (style or ground))], self.thickness)
            for which, (text, style, _) in few.items()
        }
        return [strips[id(segment)] for segment in segments]
