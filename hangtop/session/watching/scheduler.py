"""What every watch does again and again, live and in ``triage``: tick, look at stacks, ask the job's sources, judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from hangtop.diagnosis.finding import Unknown, Verdict

if TYPE_CHECKING:
    from hangtop.session.session import Session

SMALL = 8
"""Nodes that are judged on the spot; with more of them the rules run in a thread, so that no key press waits."""
LOOK_SECONDS = 5.0
"""How long the verdict waits for a look; a node that is slower has its say in the next one."""
TICK_EVERY = 1.0
"""Seconds between two ticks while a look is waited for: charts had a hole at each of them else."""


class Scheduler:
    """The tasks of one session's watch. A fault of one is raised by the next :meth:`tick`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.verdict_cost = self.tick_cost = 0.0
        """Seconds of CPU that the last verdict took, and the last tick."""
        self.native_ranks: set[int] = set()
        """Ranks whose native frames were asked for in the present wait."""
        self._tasks: dict[asyncio.Task[object], str] = {}

    def close(self) -> None:
        """End what has not answered."""
        for task in self._tasks:
            task.cancel()

    def stands(self, seconds: float) -> bool:
        """Whether the job has stood still for so long."""
        still = self.session.progress.stood_still
        return still is not None and still >= seconds

    async def tick(self) -> None:
        """Look at the cheap signs of progress, a slice at a time."""
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            task.result()
        cost, began = 0.0, time.thread_time()
        for _ in self.session.ticking():
            cost += time.thread_time() - began
            await asyncio.sleep(0)
            began = time.thread_time()
        self.tick_cost = cost + time.thread_time() - began

    def ask(self, name: str, question: Coroutine[object, object, object]) -> None:
        """Ask in the background, unless the last answer to the same is still being waited for."""
        if self.asking(name):
            question.close()
        else:
            self._tasks[asyncio.create_task(question, name=f"hangtop {name}")] = name

    def asking(self, name: str) -> bool:
        """Whether an answer to this is still being waited for."""
        return any(known == name and not task.done() for task, known in self._tasks.items())

    def look(self, name: str = "look") -> None:
        """Look at the stacks of all ranks, which only reads; a node that works on an earlier look is left out."""
        if not self.session.options.read_only:
            self.ask(name, self.session.dump_stacks(None, unasked=True))

    async def answers(self, *names: str, seconds: float = LOOK_SECONDS) -> None:
        """Wait for the answers whose names begin so, no longer than so many seconds; what is late stays under way."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            waited = [task for task, name in self._tasks.items() if name.startswith(names) and not task.done()]
            if not waited:
                break
            await asyncio.wait(waited, timeout=min(TICK_EVERY, left))
            if not all(task.done() for task in waited):
                await self.tick()

    async def look_natively(self, *, again: bool) -> None:
        """Read native frames of one rank a point, where Python's leave open what a job that stands still waits for.

        ``again``: also of ranks that were asked in the present wait already.
        """
        if not self.session.can_act or self.session.options.read_only:
            return
        from hangtop.diagnosis.waits.job_status import native_wanted

        snapshot = self.session.snapshot()

        def wanted() -> tuple[int, ...]:
            return native_wanted(self.session.job_of(snapshot))

        ranks = wanted() if len(snapshot.nodes) <= SMALL else await asyncio.to_thread(wanted)
        ranks = tuple(rank for rank in ranks if again or rank not in self.native_ranks)
        if ranks and not self.asking("native look"):
            self.native_ranks.update(ranks)
            self.ask("native look", self.session.dump_stacks(ranks, native=True))
            await self.answers("native look")

    async def judge(self) -> Verdict:
        """Make a verdict and publish it; where the rules fail on what a node sent, that is the verdict."""
        from hangtop.diagnosis.verdict.verdict import diagnose

        # CPU, not time: a machine that is busy with other work makes every verdict late, but none dearer.
        began = time.thread_time()
        snapshot = self.session.snapshot()
        copying = time.thread_time() - began

        def judged() -> Verdict:
            began = time.thread_time()
            verdict = diagnose(self.session.job_of(snapshot))
            self.verdict_cost = copying + time.thread_time() - began
            return verdict

        try:
            verdict = judged() if len(snapshot.nodes) <= SMALL else await asyncio.to_thread(judged)
        except Exception as error:  # noqa: BLE001 - one fault must not end the watch
            verdict = failed("the diagnosis", error)
        return self.session.publish(verdict)


def failed(what: str, error: Exception) -> Verdict:
    """The verdict where hangtop itself has a fault: an old one would stand there as if it were new."""
    why = f"{what} failed: {type(error).__name__}: {error}"
    return Verdict("unknown", why, unknown=(Unknown(what, (), why),))
