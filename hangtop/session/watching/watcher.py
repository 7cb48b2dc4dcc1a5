"""The one scheduler of a session: when to look at stacks, when to ask the job's own sources, when to judge.

In a live session it runs to the end (:meth:`Watcher.run`). ``hangtop triage`` does the same in a hurry, until the first
settled answer (:mod:`~hangtop.session.watching.triage`).
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import random
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Unknown, Verdict

if TYPE_CHECKING:
    from hangtop.diagnosis.job import Job
    from hangtop.diagnosis.node import Node
    from hangtop.session.session import Session

LOOKS = (0.0, 0.4, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0)
THEN_EVERY = 15.0
"""Seconds from the first sample of a wait to each, and later between two samples. The first samples measure which ranks
progress, at uneven intervals so that they do not fall in step with the job; later samples show whether the ranks still
do."""
EARLY = 0.5
"""Share of the time until the alarm after which stacks of a wait are read, so that the alarm does not have to wait for
a sample."""
COMING, FIRST_WAIT = 15.0, 3.0
"""In the first ``COMING`` seconds of a session, stacks are read after a wait of ``FIRST_WAIT`` seconds: no alarm yet,
but the banner can show what the ranks wait for."""
LEAST_WAIT = 1.0
"""Seconds of a wait before RAS is asked, or native frames are read in a hurry."""
SUSPECT = 1.5
"""Seconds within which a moving job usually shows some sign of motion."""
SAMPLE_EVERY = (7.0, 13.0)
"""Seconds between two samples of a moving job, chosen at random: regular samples could fall in step with the job."""
SAMPLED_RANKS = 256
"""Ranks of the largest job whose stacks are read while it moves."""
PERIOD, LONGEST_PERIOD = 1.0, 4.0
"""Seconds between two ticks, least and most, …"""
LEISURE, HURRY = 20.0, 4.0
"""… and this multiple of the CPU that a tick takes, or a verdict; the smaller one in a hurry."""
LEAST_PAUSE, HURRIED_PAUSE, LONGEST_PAUSE = 2.0, 0.25, 30.0
"""Seconds between two verdicts: least, least in a hurry, most."""
NATIVE_SECONDS = 5.0
"""Seconds that a verdict waits for native frames; later frames count in the next verdict."""
LAST_SECONDS, OPEN_SECONDS = 4.0, 12.0
"""Seconds that :meth:`Watcher.last_word` waits for answers; the latter if no culprit is named, because NCCL's RAS takes
up to 10 s if ranks are silent."""
NEEDED = ("hangtop.diagnosis.verdict.verdict", "collectors.probes.stacks")
"""Modules that watching needs and the first screen does not: a second of imports."""


class Watcher:
    """The watch of one session, and its tasks. The next :meth:`tick` raises a task's exception."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.hurried = False
        """The user waits for the answer: stacks are read from the start, even if the job does not stand still."""
        self._tasks: dict[asyncio.Task[object], str] = {}
        self._answered: set[str] = set()
        """Names of tasks that have ended since the last step."""
        self._verdict_cost = self._tick_cost = 0.0
        """Seconds of CPU that the last verdict took, and the last tick."""
        self._looked = 0
        """Looks at the current wait, 0 while the job moves."""
        self._first_at = self._last_at = self._sample_at = self._judge_at = 0.0
        self._initialised = False
        """RAS is due, and the last verdict's job had initialised its communicators."""
        self._fresh_dumps = False
        """Armed flight recorders were asked for dumps of the current wait."""

    def close(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    async def run(self) -> None:
        """Watch until cancelled."""
        for name in NEEDED:
            await asyncio.to_thread(partial(importlib.import_module, name))
        try:
            while True:
                await asyncio.sleep(min(LONGEST_PERIOD, max(PERIOD, LEISURE * self._tick_cost)))
                try:
                    await self.step()
                except Exception as error:  # noqa: BLE001 - the screen must not show an old verdict as new
                    self._session.publish(failed("watching", error))
        finally:
            self.close()

    async def step(self) -> Verdict | None:
        """Follow progress and ask what is due; returns a new verdict if a sample came in or one is due, else None."""
        session = self._session
        await self.tick()
        looked = any(name.startswith("look") for name in self._answered)
        self._answered.clear()
        if self._claim_look():
            self._look(f"look {self._looked}")
            if self._looked == 1 or len(session.state.recorders) < len(session.living()):
                self._ask("recorders", session.job_sources.recorders())
        elif self._claim_sample():
            self._look("sample")
        if not looked and time.monotonic() < self._judge_at:
            return None
        # native frames pause a rank: only after a wait that is longer than the job's usual pause
        if looked and self._stands(LEAST_WAIT if self.hurried else self._soonest(session.alarm_after)):
            await self._look_natively()
        verdict = await self.judge()
        if self._initialised:
            self._ask("RAS", session.job_sources.ras())
        least, leisure = (HURRIED_PAUSE, HURRY) if self.hurried else (LEAST_PAUSE, LEISURE)
        self._judge_at = time.monotonic() + min(LONGEST_PAUSE, max(least, leisure * self._verdict_cost))
        self._fresh_dumps = self._fresh_dumps and self._looked > 0
        if verdict.names_nobody and session.can_act and not (self._fresh_dumps or session.options.read_only):
            self._fresh_dumps = True
            self._ask("recorder dumps", session.job_sources.recorders(fresh=True))
        return verdict

    async def last_word(self, verdict: Verdict) -> Verdict:
        """The final verdict, after outstanding answers; it waits longer for them if no culprit is named."""
        is_open = verdict.names_nobody or verdict.outcome == "unknown"
        await self._answers("look", "recorder", "RAS", seconds=OPEN_SECONDS if is_open else LAST_SECONDS)
        if self._stands(LEAST_WAIT):
            await self._look_natively()
        return await self.judge()

    async def judge(self) -> Verdict:
        """Make a verdict and publish it; if the rules raise an exception, the verdict reports that."""
        with _no_collection():
            verdict = await self._judged()  # its snapshot is freed before the next collection, which would visit it
        return self._session.publish(verdict)

    async def _judged(self) -> Verdict:
        from hangtop.diagnosis.verdict.verdict import diagnose
        from hangtop.diagnosis.waits.job_status import initialised

        # counts mean nothing while they move, and a RAS query may crash a rank that creates a communicator
        # (NVIDIA/nccl#2346, 2.29.7)
        session, self._initialised = self._session, False
        may_ask = session.can_act and not session.options.read_only and session.job_sources.ras_due()
        still = session.progress.motion.moving is not True and self._stands(LEAST_WAIT)

        def judged() -> Verdict:
            began = time.thread_time()
            job = session.job_of(snapshot)
            verdict = diagnose(job)
            self._initialised = may_ask and still and initialised(job)
            self._verdict_cost = copying + time.thread_time() - began
            return verdict

        copying, snapshot = await self._snapshot()
        try:
            return await asyncio.to_thread(judged)  # no key press waits
        except Exception as error:  # noqa: BLE001 - a bug must not end the watch
            return failed("the diagnosis", error)

    async def _snapshot(self) -> tuple[float, Job]:
        """The present state, copied in slices, and the seconds of CPU that this took."""
        nodes: dict[str, Node] = {}
        cost = await _in_slices(self._session.copying(nodes))
        return cost, self._session.snapshot(nodes)

    # --- what is due -------------------------------------------------------------------------------------------------

    def _stands(self, seconds: float) -> bool:
        """Whether the job has stood still for at least ``seconds``."""
        still = self._session.progress.stood_still
        return still is not None and still >= seconds

    def _claim_look(self) -> bool:
        """Whether the next sample of a wait is due; if so, count it as taken. Without a wait, only if hurried.

        Even if the job often pauses for long: only a sample shows where it stands, and how long it may stand there.
        """
        session = self._session
        if not (self.hurried or self._stands(self._soonest(min(session.options.patience, session.alarm_after)))):
            self._looked = 0
            return False
        now, number = session.now(), self._looked
        self._first_at = now if not number else self._first_at
        next_at = self._first_at + LOOKS[number] if number < len(LOOKS) else self._last_at + THEN_EVERY
        if not session.can_act or now < next_at:
            return False
        self._looked, self._last_at = number + 1, now
        return True

    def _soonest(self, due: float) -> float:
        """Seconds after which a wait that becomes an alarm after ``due`` seconds gets its first sample."""
        first, session = min(FIRST_WAIT, due), self._session
        return first if session.now() - session.state.started < COMING else max(first, EARLY * due)

    def _claim_sample(self) -> bool:
        """Whether a sample of a moving job is due; if so, set the time of the next. Only many samples show a slow rank.

        Samples only read and stop nobody; a large job is not looked at as a whole. They come within its pauses too, as
        far as those are usual, or the samples would all fall upon the moments in which it goes on.
        """
        session = self._session
        now, still = session.now(), session.progress.stood_still
        moving = still is not None and still < max(SUSPECT, session.progress.usual_pause or 0.0)
        if self.hurried or not moving or not session.can_act or now < self._sample_at:
            return False
        self._sample_at = now + random.uniform(*SAMPLE_EVERY)  # noqa: S311 - no secret
        return 1 < len(session.living()) <= SAMPLED_RANKS

    # --- asking ------------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Take answers that have arrived, and follow the cheap signs of progress, a slice at a time."""
        for task in [task for task in self._tasks if task.done()]:
            self._answered.add(self._tasks.pop(task))
            task.result()
        self._tick_cost = await _in_slices(self._session.ticking())

    def _ask(self, name: str, question: Coroutine[object, object, object]) -> None:
        """Ask in the background, unless the same question is still open."""
        if any(known == name and not task.done() for task, known in self._tasks.items()):
            question.close()
        else:
            self._tasks[asyncio.create_task(question, name=f"hangtop {name}")] = name

    def _look(self, name: str) -> None:
        """Read the stacks of all ranks without pausing them; skips nodes that still work on an earlier sample."""
        self._ask(name, self._session.job_sources.stacks(None, unasked=True))

    async def _look_natively(self) -> None:
        """Read native frames of one rank per point at which Python frames do not show what a still job waits for."""
        session = self._session
        if not session.can_act or session.options.read_only:
            return
        from hangtop.diagnosis.waits.job_status import native_wanted

        _, snapshot = await self._snapshot()
        if ranks := await asyncio.to_thread(lambda: native_wanted(session.job_of(snapshot))):
            self._ask("native sample", session.job_sources.stacks(ranks, native=True))
            await self._answers("native sample", seconds=NATIVE_SECONDS)

    async def _answers(self, *names: str, seconds: float) -> None:
        """Wait for answers with these prefixes for at most ``seconds``; later answers stay under way."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            waited = [task for task, name in self._tasks.items() if name.startswith(names) and not task.done()]
            if not waited:
                break
            await asyncio.wait(waited, timeout=min(PERIOD, left))
            if not all(task.done() for task in waited):
                await self.tick()


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: a snapshot has no cycles, and a collection would also stop the event loop."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _in_slices(work: Iterator[None]) -> float:
    """Do work, yielding to the event loop between its slices; returns the seconds of CPU that it took.

    CPU, not wall time: on a busy machine every verdict is late, but none costs more.
    """
    cost, began = 0.0, time.thread_time()
    for _ in work:
        cost += time.thread_time() - began
        await asyncio.sleep(0)
        began = time.thread_time()
    return cost + time.thread_time() - began


def failed(what: str, error: Exception) -> Verdict:
    """The verdict for a bug of hangtop itself: an old verdict would stay as if it were new."""
    why = f"{what} failed: {type(error).__name__}: {error}"
    return Verdict("unknown", why, unknown=(Unknown(what, (), why),))
