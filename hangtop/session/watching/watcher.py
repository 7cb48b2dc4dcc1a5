"""The live session's own mind: follows progress, looks at stacks when a wait gets too long, and judges."""

from __future__ import annotations

import asyncio
import importlib
import time
from functools import partial
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Verdict
from hangtop.session.watching.scheduler import Scheduler, failed

if TYPE_CHECKING:
    from hangtop.session.session import Session

LOOKS, THEN_EVERY = (0.0, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0), 15.0
"""Seconds from the first look at a wait to each, and from each later look to the next: the first ones measure which
ranks make progress, the later ones tell whether they still do."""
EARLY = 0.5
"""Share of the time until the alarm after which a wait is looked into: what was seen then is judged when it is over,
and the alarm has to wait for no look."""
COMING, FIRST_WAIT = 15.0, 3.0
"""Seconds from the start of a session in which a wait of so many seconds is looked into already: that is no alarm yet,
but the banner can say what is being waited for."""
SUSPECT = 1.5
"""Seconds within which a job that moves shows some sign of it, as a rule."""
SAMPLE_EVERY, OF_IT, GOLDEN = 7.0, 6.0, 0.618034
"""Seconds between two looks at the stacks of a job that moves: so many, and a part of so many more, uneven, or the
looks would meet its rhythm in step. The multiples of this share, without their whole numbers, lie as evenly as they
can."""
SAMPLED_RANKS = 256
"""Ranks of a job beyond which it is not looked at while it moves."""
PERIOD, LONGEST_PERIOD = 1.0, 4.0
"""Seconds between two ticks, at the least and at the most, ..."""
LEISURE = 20.0
"""... and so many times the CPU that one takes between them."""
LEAST_PAUSE, LONGEST_PAUSE = 2.0, 30.0
"""Seconds between two verdicts, likewise."""
NEEDED = ("hangtop.diagnosis.verdict.verdict", "collectors.probes.stacks")
"""What watching needs and the first screen does not: a second of imports."""


class Watcher(Scheduler):
    """Runs beside a session from its start to its end."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looked = self._samples = 0
        """Looks at the present wait, 0 while the job moves; and looks at the job while it moved."""
        self._first_at = self._last_at = self._sample_at = self._judge_at = 0.0
        self._fresh_dumps = False
        """Recorders that the job has armed were asked for dumps of the present wait."""

    async def run(self) -> None:
        """Watch until cancelled."""
        for name in NEEDED:
            await asyncio.to_thread(partial(importlib.import_module, name))
        try:
            while True:
                await asyncio.sleep(min(LONGEST_PERIOD, max(PERIOD, LEISURE * self.tick_cost)))
                try:
                    await self.step()
                except Exception as error:  # noqa: BLE001 - somebody looks at the screen and believes it
                    self.session.publish(failed("watching", error))
        finally:
            self.close()

    async def step(self) -> None:
        """Look once at progress, and do what it asks for."""
        session = self.session
        await self.tick()
        due = self._look_due()
        if not self._looked:
            self._fresh_dumps = False
            self.native_ranks.clear()
        if due:
            self.look()
            self.ask("recorders", session.job_sources.recorders())
            await self.answers("look", "recorders")
            await self._natively(again=True)
        elif self._sample_due():
            self.look("sample")
        if session.can_act and session.progress.motion.moving is not True:
            # counts mean nothing while they move, and a communicator that is being made may not bear a question
            # (NVIDIA/nccl#2346, 2.29.7)
            self.ask("RAS", session.job_sources.ras())
        if due or time.monotonic() >= self._judge_at:
            if self._looked and not due:
                await self._natively(again=False)  # what was not seen to stand at the last look may be by now
            verdict = await self.judge()
            if verdict.names_nobody and session.can_act and not (self._fresh_dumps or session.options.read_only):
                self._fresh_dumps = True
                self.ask("recorder dumps", session.job_sources.recorders(fresh=True))

    async def judge(self) -> Verdict:
        """Judge, and say when the next verdict is due: no more than a twentieth of the time goes into them."""
        verdict = await super().judge()
        self._judge_at = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, LEISURE * self.verdict_cost))
        return verdict

    async def _natively(self, *, again: bool) -> None:
        """Read native frames, which pauses a rank: no sooner than a pause that the job takes at that place is over."""
        if self.stands(self._soonest(self.session.alarm_after)):
            await self.look_natively(again=again)

    def _look_due(self) -> bool:
        """Whether the wait has come to its next look; there are none where there is no wait.

        However long the job is known to pause elsewhere: where it stands, and how long it may there, only a look tells.
        """
        session = self.session
        if not self.stands(self._soonest(min(session.options.patience, session.alarm_after))):
            self._looked = 0
            return False
        now, number = session.now(), self._looked
        self._first_at = now if not number else self._first_at
        next_at = self._first_at + LOOKS[number] if number < len(LOOKS) else self._last_at + THEN_EVERY
        if session.options.read_only or not session.can_act or now < next_at:
            return False
        self._looked, self._last_at = number + 1, now
        return True

    def _soonest(self, due: float) -> float:
        """Seconds of waiting after which a wait that becomes an alarm after ``due`` is looked into."""
        session = self.session
        half = min(due, max(FIRST_WAIT, EARLY * due))
        return min(FIRST_WAIT, half) if session.now() - session.state.started < COMING else half

    def _sample_due(self) -> bool:
        """Whether stacks of a job that moves are due: which rank is slower than the others, only many looks tell.

        Looks only read and stop nobody; a large job is not looked at as a whole. They come within its pauses too, as
        far as those are usual, or the looks would all fall upon the moments in which it goes on.
        """
        session = self.session
        now, still = session.now(), session.progress.stood_still
        moving = still is not None and still < max(SUSPECT, session.progress.usual_pause or 0.0)
        if not moving or not session.can_act or now < self._sample_at:
            return False
        self._samples += 1
        self._sample_at = now + SAMPLE_EVERY + OF_IT * (self._samples * GOLDEN % 1.0)
        return 1 < len(session.living()) <= SAMPLED_RANKS
