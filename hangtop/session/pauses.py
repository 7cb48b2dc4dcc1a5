"""The pauses that a job takes and comes back from: evaluation, checkpoints, compilation.

They are learned by place, as what is usual in one is not in another, and fade: ten minutes of compiling at the start
must not make the watch deaf for days.
"""

from __future__ import annotations

HALF_LIFE = 1800.0
"""Seconds in which a pause that does not come again is half forgotten."""
PLACES = 64
"""Places that are remembered; the shortest pauses give way."""
ANYWHERE = ""
"""The place of a pause whose place nobody knows."""


class Pauses:
    """Learns how long this job pauses. Times are of one clock."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}
        """Place → how long, and when that was seen."""

    def learn(self, place: str, seconds: float, now: float) -> None:
        """The job went on after so many seconds at a place."""
        self._known[place] = max(seconds, self._faded(place, now)), now
        if len(self._known) > PLACES:
            del self._known[min(self._known, key=lambda known: self._faded(known, now))]

    def usual(self, place: str, now: float) -> float | None:
        """The longest pause that this job takes at a place, in seconds; at any, where its place is not known.

        None where it was never seen to pause. Pauses whose place nobody knew may have been at this one.
        """
        places = self._known if place == ANYWHERE else self._known.keys() & {place, ANYWHERE}
        return max((self._faded(known, now) for known in places), default=None)

    def _faded(self, place: str, now: float) -> float:
        seconds, at = self._known.get(place, (0.0, now))
        return float(seconds * 0.5 ** (max(0.0, now - at) / HALF_LIFE))
