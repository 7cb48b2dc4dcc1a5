"""The pauses that a job takes and comes back from: evaluation, checkpoints, compilation.

They are learned by place, as what is usual in one is not in another, and fade: ten minutes of compiling at the start
must not make the watch deaf for days.
"""

from __future__ import annotations

HALF_LIFE = 1800.0
"""Seconds in which a pause that does not come again is half forgotten."""
ANYWHERE = ""
"""The place of a pause whose place nobody knows."""


class Pauses:
    """Learns how long this job pauses. Times are of one clock."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}
        """Place → how long, and when that was seen."""
        self._alarmed: dict[str, tuple[float, float]] = {}
        """The same of pauses that were called hangs, and that the job went on after."""

    def learn(self, place: str, seconds: float, now: float, *, alarmed: bool = False) -> None:
        """The job went on after so many seconds at a place; ``alarmed``: that had been called a hang.

        After an alarm once is no habit: somebody may have helped. Twice within a :data:`HALF_LIFE` it is how this job
        runs, and an alarm each time would be one that nobody listens to.
        """
        if alarmed:
            before, at = self._alarmed.get(place, (0.0, float("-inf")))
            self._alarmed[place] = seconds, now
            if now - at > HALF_LIFE:
                return
            seconds = min(seconds, before)
        self._known[place] = max(seconds, self._faded(place, now)), now

    def usual(self, place: str, now: float) -> float | None:
        """The longest pause that this job takes at a place, in seconds; at any, where its place is not known.

        None where it was never seen to pause. Pauses whose place nobody knew may have been at this one.
        """
        places = self._known if place == ANYWHERE else self._known.keys() & {place, ANYWHERE}
        return max((self._faded(known, now) for known in places), default=None)

    def _faded(self, place: str, now: float) -> float:
        seconds, at = self._known.get(place, (0.0, now))
        return float(seconds * 0.5 ** (max(0.0, now - at) / HALF_LIFE))
