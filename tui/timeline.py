"""Which stretch of time is on view, and which moment of it: what zoom and scrub keys change, and charts draw."""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from hangtop.session.session import Session
from hangtop.session.state.changes import Change, TimelineMark, marks
from tui.looks.format import age, clock

ZOOMS = (60, 120, 300, 900, 3600, 21_600, 86_400, 604_800)
"""Seconds that can be on view."""
USUAL = 3
"""Place of the longest stretch that is shown without being asked for."""
NAMES = ("1m", "2m", "5m", "15m", "1h", "6h", "1d", "7d")


class Window(NamedTuple):
    """A stretch of time in columns, each of two steps."""

    begin: float
    step: float
    """Seconds of half a column."""
    columns: int

    @property
    def end(self) -> float:
        """End of the last column."""
        return self.begin + 2 * self.step * self.columns

    def column(self, at: float) -> int | None:
        """The column in which a time lies; None outside."""
        place = floor((at - self.begin) / (2 * self.step) + 1e-6)
        return place if 0 <= place < self.columns else None


class Timeline:
    """One per application. ``head`` is the session whose history it is: what is live, or played."""

    def __init__(self, head: Session) -> None:
        self.head = head
        self.at: float | None = None
        """The moment that is shown; None is now."""
        self.playing = False
        """Whether the moment that is shown goes on by itself: in a recording, from where one has gone back to."""
        self._zoom: int | None = None
        """Place in :data:`ZOOMS`; None until somebody chose: as much as there is."""
        self._marks: tuple[tuple[int, Change | None], list[TimelineMark]] = ((0, None), [])

    @property
    def span(self) -> int:
        """Seconds on view."""
        return ZOOMS[self._place]

    @property
    def name(self) -> str:
        """The same for people."""
        return NAMES[self._place]

    @property
    def _place(self) -> int:
        if self._zoom is not None:
            return self._zoom
        began = self.head.history.began
        seen = 0.0 if began is None else self.now - began
        return next((place for place, span in enumerate(ZOOMS[:USUAL]) if span >= seen), USUAL)

    def zoom(self, step: int) -> None:
        """Show more (1) or less (-1) time."""
        self._zoom = max(0, min(len(ZOOMS) - 1, self._place + step))

    @property
    def ends(self) -> float | None:
        """Where a recording ends; None for what is live."""
        return None if self.head.player is None else self.head.player.ends

    @property
    def moves(self) -> bool:
        """Whether the moment that is shown goes on by itself."""
        player = self.head.player
        return self.playing if self.at is not None else player is None or not (player.paused or player.ended)

    @property
    def toggles(self) -> str:
        """What Space does."""
        if self.head.player is None:
            return "pause" if self.at is None else "live"
        return "pause" if self.moves else "play"

    def told(self) -> tuple[str, str]:
        """Which moment is shown, and how that lies to the newest one; both empty for what is live and now."""
        player, at = self.head.player, self.shown
        if player is None and self.at is None:
            return "", ""
        glyph = "▶" if self.moves else "■" if player is not None and self.at is None and player.ended else "⏸"
        if self.at is None:
            assert player is not None
            left = player.ends - at
            return f"{glyph} {clock(at, millis=False)}", f"{age(left)} before its end" if left >= 1 else "its end"
        behind = "ago" if player is None else "before what was played"
        return f"{glyph} {clock(at, millis=False)}", f"{age(self.now - at)} {behind}"

    @property
    def shown(self) -> float:
        """The moment that is shown."""
        return self.now if self.at is None else self.at

    @property
    def now(self) -> float:
        """The newest moment that there is."""
        return self.head.now()

    def window(self, columns: int) -> Window:
        """The stretch of time on view in so many columns.

        It ends now; where the moment that is shown lies before it, half as much earlier or as often that as needed. Its
        steps are the same as long as the zoom is, so that a chart moves by whole columns.
        """
        step = self.span / (2 * columns)
        begin = 2 * step * (ceil(self.now / (2 * step)) - columns)
        if self.at is not None and self.at < begin:
            halves = ceil((begin - self.at) / (self.span / 2))
            begin = 2 * step * floor((begin - halves * self.span / 2) / (2 * step))
        return Window(begin, step, columns)

    @property
    def marks(self) -> list[TimelineMark]:
        """What happened, the oldest first."""
        changes = self.head.state.changes
        key = (len(changes), changes.newest)
        if key[0] != self._marks[0][0] or key[1] is not self._marks[0][1]:
            self._marks = key, marks(changes)
        return self._marks[1]
