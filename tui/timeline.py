"""The visible stretch of time and the shown moment, which the zoom and scrub keys change."""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from hangtop.session.session import Session
from hangtop.session.state import Change, marks
from tui.looks.format import age, clock

ZOOMS = {"1m": 60, "2m": 120, "5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400}
"""Zoom levels, in seconds."""
USUAL = 3
"""Index of the widest zoom level that is chosen automatically."""


class Window(NamedTuple):
    """A stretch of time, divided into columns."""

    begin: float
    step: float
    """Seconds of a column."""
    columns: int

    @property
    def end(self) -> float:
        """End of the last column."""
        return self.begin + self.step * self.columns

    def column(self, at: float) -> int | None:
        """The column of a time; None outside the window."""
        place = floor((at - self.begin) / self.step + 1e-6)
        return place if 0 <= place < self.columns else None


class Timeline:
    """The time state of the application; ``head`` is the live or played session."""

    def __init__(self, head: Session) -> None:
        self.head = head
        self.at: float | None = None
        """The chosen moment; None: the newest."""
        self._zoom: int | None = None
        """Index in :data:`ZOOMS`; None until the user zooms: as much as is known."""
        self._marks: tuple[int, list[Change]] = (0, [])

    @property
    def span(self) -> int:
        """Visible seconds."""
        return ZOOMS[self.name]

    @property
    def name(self) -> str:
        """Name of the zoom level: ``5m``."""
        return list(ZOOMS)[self._place]

    @property
    def _place(self) -> int:
        if self._zoom is not None:
            return self._zoom
        seen = self.now - self.head.state.started
        return min(USUAL, sum(span < seen for span in ZOOMS.values()))

    def zoom(self, step: int) -> None:
        """Show more (1) or less (-1) time."""
        self._zoom = max(0, min(len(ZOOMS) - 1, self._place + step))

    def moment_texts(self) -> tuple[str, str]:
        """Texts of the shown moment and its distance to the newest; both empty for the live present."""
        until, at = self.head.until, self.shown
        if self.at is not None:
            return f"⏸ {clock(at)}", f"{age(self.now - at)} before the newest"
        if until is None:
            return "", ""
        if at >= until:
            return f"■ {clock(at)}", "the end"
        return f"▶ {clock(at)}", f"{age(until - at)} more are being read"

    @property
    def shown(self) -> float:
        """The shown moment, as a time."""
        return self.now if self.at is None else self.at

    @property
    def now(self) -> float:
        """The newest known moment."""
        return self.head.now()

    def window(self, columns: int) -> Window:
        """The visible stretch in so many columns: up to now, or around the chosen moment if that is earlier.

        The width of a column depends only on the zoom, so that a chart moves by whole columns.
        """
        step = self.span / columns
        begin = step * (ceil(self.now / step) - columns)
        if self.at is not None and self.at < begin:
            begin = step * (ceil((self.at + self.span / 2) / step) - columns)
        return Window(begin, step, columns)

    @property
    def marks(self) -> list[Change]:
        """Events to mark, oldest first."""
        changes = self.head.state.changes
        if changes.total != self._marks[0]:
            self._marks = changes.total, marks(change for _, change in changes)
        return self._marks[1]
