"""Nodes that come at the start: drawn as they come rather than up to a second later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hangtop.diagnosis.job import LinkWord

ARRIVALS = 0.1
"""Seconds between two looks at whether a node has come."""
FEW = 64
"""Nodes of which each is drawn as it comes: thousands come in too many parts for that."""


class Arrivals:
    """Remembers how many had come."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._came = 0
        """Nodes that have answered, or could not be reached, when it was last drawn."""

    @property
    def many(self) -> bool:
        """Whether so many came that not each was drawn."""
        return self._came > FEW

    def look(self, links: Sequence[LinkWord]) -> bool:
        """Draw those that have come since the last look, if they are few; tells whether all have."""
        came = len(links) - links.count("connecting")
        if came != self._came:
            self._came = came
            if len(links) <= FEW:
                self._draw()
        return 0 < came == len(links)
