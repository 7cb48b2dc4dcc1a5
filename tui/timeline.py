"""Which stretch of time is on view, and which moment of it: what zoom and scrub keys change, and charts draw."""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from hangtop.session.session import Session
from hangtop.session.state import Change, marks
from tui.looks.format import age, clock

ZOOMS = {"1m": 60, "2m": 120, "5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400}
"""Seconds that can be on view."""
USUAL = 3
"""Place of the longest stretch that is shown without being asked for."""


class Window(NamedTuple):
    """A stretch of time in columns."""

    begin: float
    step: float
    """Seconds of a column."""
    columns: int

    @property
    def end(self) -> float:
        """End of the last column."""
        return self.begin + self.step * self.columns

    def column(self, at: float) -> int | None:
        """The column in which a time lies; None outside."""
        place = floor((at - self.begin) / self.step + 1e-6)
        return place if 0 <= place < self.columns else None


class Timeline:
    """One per application. ``head`` is the session whose history it is: what is live, or played."""

    def __init__(self, head: Session) -> None:
        self.head = head
        self.at: float | None = None
        """The moment that is shown; None is now."""
        self._zoom: int | None = None
        """Place in :data:`ZOOMS`; None until somebody chose: as much as there is."""
        self._marks: tuple[int, list[Change]] = (0, [])

    @property
    def span(self) -> int:
        """Seconds on view."""
        return ZOOMS[self.name]

    @property
    def name(self) -> str:
        """The same for people."""
        return list(ZOOMS)[self._place]

    @property
    def _place(self) -> int:
        if self._zoom is not None:
            return self._zoom
        began = self.head.history.began
        seen = 0.0 if began is None else self.now - began
        return min(USUAL, sum(span < seen for span in ZOOMS.values()))

    def zoom(self, step: int) -> None:
        """Show more (1) or less (-1) time."""
        self._zoom = max(0, min(len(ZOOMS) - 1, self._place + step))

    def told(self) -> tuple[str, str]:
        """Which moment is shown, and how that lies to the newest one; both empty for what is live and now."""
        player, at = self.head.player, self.shown
        if self.at is not None:
            return f"⏸ {clock(at, millis=False)}", f"{age(self.now - at)} before the newest"
        if player is None:
            return "", ""
        if player.ended:
            return f"■ {clock(at, millis=False)}", "its end"
        return f"▶ {clock(at, millis=False)}", f"{age(player.until - at)} more are being read"

    @property
    def shown(self) -> float:
        """The moment that is shown."""
        return self.now if self.at is None else self.at

    @property
    def now(self) -> float:
        """The newest moment that there is."""
        return self.head.now()

    def window(self, columns: int) -> Window:
        """The stretch of time on view in so many columns: up to now, or around the moment that is shown before it.

        Its steps are the same as long as the zoom is, so that a chart moves by whole columns.
        """
        step = self.span / columns
        begin = step * (ceil(self.now / step) - columns)
        if self.at is not None and self.at < begin:
            begin = step * (ceil((self.at + self.span / 2) / step) - columns)
        return Window(begin, step, columns)

    @property
    def marks(self) -> list[Change]:
        """What happened, the oldest first."""
        changes = self.head.state.changes
        if changes.total != self._marks[0]:
            self._marks = changes.total, marks(change for _, change in changes)
        return self._marks[1]
