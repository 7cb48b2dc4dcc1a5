"""How long the ranks in view have been still: taken up as each is looked at, so that the whole is told at once."""

from __future__ import annotations

from array import array

from hangtop.session.motion.tracks import WITNESSED, MotionTrack

SPARES_AFTER = 10.0
"""Seconds of watching from which on a rank that never moved, beside others that do, is a spare."""


class Stills:
    """The ranks of one look at a job."""

    __slots__ = ("_active", "_every", "_newest", "_quiet")

    def __init__(self) -> None:
        self._every = array("d")
        self._active = array("d")
        """Seconds of stillness of those that moved more than once."""
        self._quiet = 0
        """How many never moved, and were looked at often enough to say so."""
        self._newest = float("-inf")
        """When the last of them came into view."""

    def __len__(self) -> int:
        return len(self._every)

    def add(self, still: float, known: MotionTrack) -> None:
        """Take a rank that has been still for so many seconds."""
        self._every.append(still)
        if known.moves > 1:
            self._active.append(still)
        elif not known.ever_moved and known.looks >= WITNESSED:
            self._quiet += 1
        if known.first_at > self._newest:
            self._newest = known.first_at

    def half(self, now: float) -> tuple[float, bool] | None:
        """Seconds for which at least half of the ranks have been still, and whether as many never moved; None without.

        Ranks that never moved while all others do are left out: a hot spare sleeps, and nobody waits for it. They must
        be few and the others several, or those who never moved may be waiting for the one that does.
        """
        spares, ranks = len(self._every) - len(self._active), len(self._every)
        if not ranks:
            return None
        left_out = now - self._newest >= SPARES_AFTER and 0 < 2 * spares < ranks and len(self._active) > 1
        counted, quiet = (self._active, 0) if left_out else (self._every, self._quiet)
        half = (len(counted) + 1) // 2
        return max(0.0, sorted(counted)[-half]), quiet >= half
