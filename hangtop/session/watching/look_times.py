"""When a session looks at stacks: of a job that stands, sooner and again; of one that moves, now and then."""

from __future__ import annotations

from hangtop.session.watching.watched import WatchedSession

LOOKS = (0.0, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0)
"""Seconds from the first look at a wait to each: the first ones measure who makes progress, the later ones tell whether
it still does. Of a job with more than :data:`SAMPLED_RANKS` ranks ..."""
LOOKS_OF_MANY = (0.0, 2.0, 10.0, 30.0)
"""... fewer."""
THEN_EVERY, THEN_EVERY_OF_MANY = 15.0, 60.0
"""Seconds from each later look to the next."""
BACK = 8.0
"""Seconds after a look from which on one is due as soon as a node whose ranks could not be looked at answers: nodes
that come and go must not make a look at all others each time."""
EARLY = 0.5
"""Share of the time until the alarm after which a wait is looked into: what was seen then is judged when it is over,
and the alarm has to wait for no look."""
COMING = 15.0
"""Seconds from the start of a session in which a wait of ``FIRST_WAIT`` seconds is looked into already: that is no
alarm yet, but the banner can say what is being waited for."""
FIRST_WAIT = 3.0
SUSPECT = 1.5
"""Seconds that a wait must last for that at the least: steps of a job that moves are shorter as a rule."""
SAMPLE_EVERY, OF_IT = 7.0, 6.0
"""Seconds between two looks at the stacks of a job that moves: so many, and a part of so many more, uneven, or the
looks would meet its rhythm in step."""
SLOWED, SLOWED_STEP_S = 2.0, 1.0
"""So many times its shortest step, and seconds of a step, from which on a job that moves has become slow, ..."""
SLOWED_EVERY, SLOWED_OF_IT, SLOWED_LOOKS = 2.5, 2.0, 10
"""... and is looked at so often, so many times: who is to blame is to be known soon."""
GOLDEN = 0.618034
"""Its multiples, without their whole numbers, lie as evenly as they can, however many there are."""
SAMPLED_RANKS = 256
"""Ranks of a job beyond which it is not looked at while it moves."""


class LookTimes:
    """Tells when the next look is due, by how long the job has stood still."""

    def __init__(self, session: WatchedSession) -> None:
        self._session = session
        self.looked = 0
        """Looks at the present wait; 0 while the job moves."""
        self._first_look_at = self._looked_at = self._regular_at = 0.0
        self._sample_at = self._sampled_at = 0.0
        self._samples = self._quick = 0
        """Looks at a job that moves, and how many of them since its steps became long."""
        self._shortest = float("inf")
        """Seconds of its shortest step, as its log told."""

    def look_due(self) -> bool:
        """Tell whether the wait has come to its next look; ``looked`` is 0 where there is none.

        However long the job is known to pause elsewhere: where it stands, and how long it may there, only a look tells.
        """
        session = self._session
        if not self.waits(self.soonest(self._half(min(session.options.patience, session.alarm_after)))):
            self.looked = 0
            return False
        if session.options.read_only or not session.can_act:
            return False
        now = session.now()
        if self.looked == 0:
            self._first_look_at = now
        many = len(session.living()) > SAMPLED_RANKS
        looks = LOOKS_OF_MANY if many else LOOKS
        if self.looked < len(looks):
            due = self._first_look_at + looks[self.looked]
        else:
            due = self._regular_at + (THEN_EVERY_OF_MANY if many else THEN_EVERY)
        if now >= due:
            self.looked += 1
            self._regular_at = now
        elif not self._came_back(now):
            return False
        self._looked_at = now
        return True

    def _came_back(self, now: float) -> bool:
        """Tell whether a node that could not be asked in the last look, which is long enough ago, answers now."""
        if now - self._looked_at < BACK:
            return False
        state, since = self._session.state, self._looked_at
        back = {node.name for node in state.nodes.values() if node.link in ("live", "limited") and node.since > since}
        for node, dump in reversed(state.stacks) if back else ():
            if node in back:
                back.discard(node)
                if dump.error.startswith("unreachable"):
                    return True
        return any(state.nodes[name].ranks for name in back)

    def native_due(self) -> bool:
        """Tell whether the wait has lasted as long as reading native frames, which pauses a rank, asks for.

        No fewer seconds than a pause of a job that moves has at that place.
        """
        return self.waits(self._limit())

    def sample_due(self) -> bool:
        """Tell whether stacks of a job that moves are due: which rank is slower than the others, only many looks tell.

        Looks only read and stop nobody; a large job is not looked at as a whole. They come within its pauses too, as
        far as those are usual, or the looks would all fall upon the moments in which it goes on.
        """
        session = self._session
        now, still = session.now(), session.progress.stood_still
        moving = still is not None and still < max(SUSPECT, session.progress.usual_pause or 0.0)
        uneven = self._samples * GOLDEN % 1.0
        quickly = self._has_slowed() and now >= self._sampled_at + SLOWED_EVERY + SLOWED_OF_IT * uneven
        if not moving or not session.can_act or session.options.read_only or (now < self._sample_at and not quickly):
            return False
        self._samples += 1
        self._quick += quickly
        self._sampled_at = now
        self._sample_at = now + SAMPLE_EVERY + OF_IT * (self._samples * GOLDEN % 1.0)
        return 1 < len(session.living()) <= SAMPLED_RANKS

    def _has_slowed(self) -> bool:
        """Whether its steps have become far longer than they were, and it was not looked at often enough since."""
        step = self._session.progress.motion.step_s
        if step is None:
            return False
        self._shortest = min(self._shortest, step)
        if step < max(SLOWED_STEP_S, SLOWED * self._shortest):
            self._quick = 0
        return step >= max(SLOWED_STEP_S, SLOWED * self._shortest) and self._quick < SLOWED_LOOKS

    def waits(self, seconds: float) -> bool:
        """Tell whether the job has stood still for so long."""
        still = self._session.progress.stood_still
        return still is not None and still >= seconds

    def soonest(self, seconds: float) -> float:
        """So many seconds, or fewer for who has just come and wants to know what is being waited for."""
        session = self._session
        just_come = session.now() - session.state.started < COMING
        return min(FIRST_WAIT, seconds) if just_come else seconds

    def _limit(self) -> float:
        """Seconds that a wait must last to be looked into in earnest."""
        return self.soonest(self._half(self._session.alarm_after))

    def _half(self, due: float) -> float:
        return min(due, max(FIRST_WAIT, EARLY * due))
