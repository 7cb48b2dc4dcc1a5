"""When a live session looks at stacks: of a job that stands, sooner and again; of one that moves, now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangtop.session.session import Session

LOOKS = (0.0, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0)
"""Seconds from the first look at a wait to each: the first ones measure who makes progress, the later ones tell whether
it still does. Of a job with more than :data:`SAMPLED_RANKS` ranks ..."""
LOOKS_OF_MANY = (0.0, 2.0, 10.0, 30.0)
"""... fewer."""
THEN_EVERY, THEN_EVERY_OF_MANY = 15.0, 60.0
"""Seconds from each later look to the next."""
EARLY = 0.5
"""Share of the time until the alarm after which a wait is looked into: what was seen then is judged when it is over,
and the alarm has to wait for no look."""
COMING = 15.0
"""Seconds from the start of a session in which a wait of ``FIRST_WAIT`` seconds is looked into already: that is no
alarm yet, but the banner can say what is being waited for."""
FIRST_WAIT = 3.0
SUSPECT = 1.5
"""Seconds within which a job that moves shows some sign of it, as a rule."""
SAMPLE_EVERY, OF_IT = 7.0, 6.0
"""Seconds between two looks at the stacks of a job that moves: so many, and a part of so many more, uneven, or the
looks would meet its rhythm in step."""
GOLDEN = 0.618034
"""Its multiples, without their whole numbers, lie as evenly as they can, however many there are."""
SAMPLED_RANKS = 256
"""Ranks of a job beyond which it is not looked at while it moves."""


class LookTimes:
    """Tells when the next look is due, by how long the job has stood still."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.looked = 0
        """Looks at the present wait; 0 while the job moves."""
        self._first_at = self._last_at = self._sample_at = 0.0
        self._samples = 0

    def look_due(self) -> bool:
        """Whether the wait has come to its next look; ``looked`` is 0 where there is no wait.

        However long the job is known to pause elsewhere: where it stands, and how long it may there, only a look tells.
        """
        session = self._session
        if not self.waits(self._soonest(_half(min(session.options.patience, session.alarm_after)))):
            self.looked = 0
            return False
        if session.options.read_only or not session.can_act:
            return False
        now = session.now()
        if self.looked == 0:
            self._first_at = now
        many = len(session.living()) > SAMPLED_RANKS
        looks, every = (LOOKS_OF_MANY, THEN_EVERY_OF_MANY) if many else (LOOKS, THEN_EVERY)
        due = self._first_at + looks[self.looked] if self.looked < len(looks) else self._last_at + every
        if now < due:
            return False
        self.looked += 1
        self._last_at = now
        return True

    def native_due(self) -> bool:
        """Whether the wait has lasted as long as reading native frames, which pauses a rank, asks for.

        No fewer seconds than a pause of a job that moves has at that place.
        """
        return self.waits(self._soonest(_half(self._session.alarm_after)))

    def sample_due(self) -> bool:
        """Whether stacks of a job that moves are due: which rank is slower than the others, only many looks tell.

        Looks only read and stop nobody; a large job is not looked at as a whole. They come within its pauses too, as
        far as those are usual, or the looks would all fall upon the moments in which it goes on.
        """
        session = self._session
        now, still = session.now(), session.progress.stood_still
        moving = still is not None and still < max(SUSPECT, session.progress.usual_pause or 0.0)
        if not moving or not session.can_act or session.options.read_only or now < self._sample_at:
            return False
        self._samples += 1
        self._sample_at = now + SAMPLE_EVERY + OF_IT * (self._samples * GOLDEN % 1.0)
        return 1 < len(session.living()) <= SAMPLED_RANKS

    def waits(self, seconds: float) -> bool:
        """Whether the job has stood still for so long."""
        still = self._session.progress.stood_still
        return still is not None and still >= seconds

    def _soonest(self, seconds: float) -> float:
        """So many seconds, or fewer for who has just come and wants to know what is being waited for."""
        session = self._session
        just_come = session.now() - session.state.started < COMING
        return min(FIRST_WAIT, seconds) if just_come else seconds


def _half(due: float) -> float:
    return min(due, max(FIRST_WAIT, EARLY * due))
