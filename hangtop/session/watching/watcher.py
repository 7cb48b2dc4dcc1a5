"""The live session's own mind: follows progress, looks at stacks when a wait gets too long, and judges."""

from __future__ import annotations

import asyncio
import importlib
import time
from functools import partial
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.waits.patience import seen_after
from hangtop.session.threads import run_in_thread
from hangtop.session.watching.look_times import LookTimes
from hangtop.session.watching.scheduler import Scheduler, failed

if TYPE_CHECKING:
    from hangtop.session.session import Session

PERIOD, LONGEST_PERIOD = 1.0, 4.0
"""Seconds between two ticks, at the least and at the most, ..."""
LEISURE = 20.0
"""... and so many times the CPU that one takes between them."""
LEAST_PAUSE, LONGEST_PAUSE = 2.0, 30.0
"""Seconds between two verdicts, likewise."""
SOON = 0.05
"""Seconds: a tick comes no sooner after the last one, however near the alarm is."""
NEEDED = ("hangtop.diagnosis.verdict.verdict", "collectors.probes.stacks")
"""What watching needs and the first screen does not."""


class Watcher(Scheduler):
    """Runs beside a session from its start to its end."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._times = LookTimes(session)
        self._judge_at = 0.0
        self._fresh_dumps = False
        """Recorders that the job has armed were asked for dumps of the present wait."""
        self._ripe = False
        """The present wait has lasted as long as an alarm needs."""

    async def run(self) -> None:
        """Watch until cancelled."""
        for name in NEEDED:  # a second of imports, which is no measure of what a verdict takes
            await run_in_thread(partial(importlib.import_module, name))
        try:
            while True:
                await asyncio.sleep(self._pause())
                try:
                    await self.step()
                except Exception as error:  # noqa: BLE001 - somebody looks at the screen and believes it
                    self.session.publish(failed("watching", error))
        finally:
            self.close()

    def _pause(self) -> float:
        """Seconds until the next tick: until the present wait becomes an alarm, where that is sooner."""
        pause = min(LONGEST_PERIOD, max(PERIOD, LEISURE * self.tick_cost))
        left = seen_after(self.session.alarm_after) - (self.session.progress.stood_still or 0.0)
        return max(SOON, left) if self._times.looked and not self._ripe and left < pause else pause

    async def step(self) -> None:
        """Look once at progress, and do what it asks for."""
        session, times = self.session, self._times
        await self.tick()
        ripe_before, self._ripe = self._ripe, times.waits(seen_after(session.alarm_after))
        ripens = self._ripe and not ripe_before and times.looked > 0
        if ripens:  # what was seen of the wait is judged at once, without another look
            await self._natively(again=False)
            await self.judge()
        due = times.look_due()
        if not times.looked:
            self._fresh_dumps = False
            self.native_ranks.clear()
        if due:
            self.ask("look", session.dump_stacks(None, unasked=True))
            self.ask("recorders", session.job_sources.recorders())
            await self.answers("look", "recorders")
            await self._natively(again=True)
        elif times.sample_due():
            self.ask("sample", session.dump_stacks(None, unasked=True))
        if session.can_act and session.progress.motion.moving is not True:
            # counts mean nothing while they move, and a communicator that is being made may not bear a question
            # (NVIDIA/nccl#2346, 2.29.7)
            self.ask("RAS", session.job_sources.ras())
        if due or time.monotonic() >= self._judge_at:
            if times.looked and not due:
                await self._natively(again=False)  # what was not seen to stand at the last look may be by now
            verdict = await self.judge()
            if verdict.names_nobody and session.can_act and not (self._fresh_dumps or session.options.read_only):
                self._fresh_dumps = True
                self.ask("recorder dumps", session.job_sources.recorders(fresh=True))

    async def _natively(self, *, again: bool) -> None:
        if self._times.native_due():
            await self.look_natively(again=again)

    async def judge(self) -> Verdict:
        """Judge, and say when the next verdict is due: no more than a twentieth of the time goes into them."""
        verdict = await super().judge()
        self._judge_at = time.monotonic() + min(LONGEST_PAUSE, max(LEAST_PAUSE, LEISURE * self.verdict_cost))
        return verdict
