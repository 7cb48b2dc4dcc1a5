"""Containers that one sees through."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Clear(Widget):
    """Draws nothing of its own: what its children leave free shows the screen, which fills every line in any case.

    Otherwise each container would give a line for each line of the screen, to be cut up and thrown away.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """No line."""
        del crop
        return []
