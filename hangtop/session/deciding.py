"""Watch a job until its verdict is sure: a hang is told as soon as it is proven, doubt is watched on for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hangtop.diagnosis.collectives.ras import POLLS
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.rules.slow import slowness_judged
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.waits.job_status import JobStatus, native_wanted, status_of_job

if TYPE_CHECKING:
    from collectors.probes.recorder.fetch import Dump
    from hangtop.session.session import Session
    from hangtop.session.watching.job_sources import JobSources

STEP = 0.25
"""Seconds between two glances at the cheap signs."""
LOOKS = (0.0, 0.09, 0.25, 0.5, 0.75, 1.0)
"""When stacks are looked at, as shares of the watch: uneven, so that a rhythm of the job is not met in step."""
THEN_EVERY = 2.0
"""Seconds between two looks once the watch is over and nothing is decided."""
LEAST = 1.0
"""Seconds before any answer: two looks that show the same."""
AT_MOST = 6.0
"""Watches that an undecided job is given at the most,"""
AT_LEAST_TO = 27.0
"""or so many seconds, whichever is more."""
SLOWNESS = 3.0
"""Watches in which a job that moves may be looked at until a slow rank could be told."""
REST = 4.0
"""Times that a verdict takes, until the next one."""
CAUSES = ("kernel", "gpus", "fabric", "network", "disks", "host", "logs")
"""Sources that may tell a cause of what stacks show: none is answered without before it has said its first word, …"""
FIRST_WORDS = 6.0
"""… or, after so many seconds of watching, without it: it is unknown then, and said to be."""
LAST_LOOK = 4.0
"""Seconds that the answer waits for stacks that were asked for last; what comes later is not known."""
RAS_GAP = 1.5
"""Seconds between an answer of NCCL's RAS and the next question, of a job that stands still while it is watched."""
RAS_SECONDS = 12.0
"""Seconds that an answer which names nobody waits for RAS, which itself takes up to 10 s where ranks are silent."""


async def watch_until_sure(session: Session, watch: float, say: Callable[[str], None]) -> Verdict:
    """Watch for ``watch`` seconds, less where the job is seen to hang before, more where nothing is decided by then.

    Stacks are looked at meanwhile, and native frames of one rank a point once the job stands still; nothing of that
    under ``--read-only``. A slow node delays nobody else's next look. Flight recorder dumps that lie there are fetched
    meanwhile; recorders that are armed are asked for new ones where the job hangs and no rank is odd. While the job
    stands still NCCL's RAS is asked.
    """
    watching = _Watching(session)
    session.watched_from(session.now())
    try:
        return await watching.run(watch, say)
    finally:
        watching.stop()


async def fetched_whole(job_sources: JobSources, dumps: Sequence[Dump]) -> bool:
    """Fetch dumps once more where some ranks had none: those of one time-out write theirs seconds apart.

    Tells whether any rank had one.
    """
    found = any(dump.size for dump in dumps)
    if found and not all(dump.size for dump in dumps):
        await job_sources.recorders()
    return found


class _Watching:
    """The looks of one watch."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._looks: list[asyncio.Task[object]] = []
        self._dumps: asyncio.Task[list[Dump]] | None = None
        """The flight recorder dumps that lie on the nodes."""
        self._ras: asyncio.Task[None] | None = None
        """The questions to NCCL's RAS."""
        self._heard = 0
        """Answers of RAS."""
        self._asked: set[int] = set()
        """Ranks whose native frames were asked for."""
        self._judge_at = 0.0
        self._watch = 0.0
        self._so_far = ""
        """What was known of a job that is watched on for longer than was asked; empty before."""

    async def run(self, watch: float, say: Callable[[str], None]) -> Verdict:
        session = self._session
        self._watch = watch
        limit = max(AT_LEAST_TO, AT_MOST * watch)
        due = [share * watch for share in LOOKS]
        while True:
            past = time.monotonic() - self._began
            if due and past >= due[0]:
                due.pop(0)
                self._look()
            elif not due and past >= watch + THEN_EVERY * (len(self._looks) - len(LOOKS)):
                self._look()
            say(f"watching {len(session.living())} ranks: {past:.0f} of {watch:.0f} s{self._so_far}")
            await asyncio.sleep(STEP)
            session.tick()
            self._raise_faults()
            past = time.monotonic() - self._began
            if past < LEAST:
                continue
            self._fetch()
            self._ask_ras()
            await self._ask_natively(say)
            if time.monotonic() < self._judge_at or (past < watch and not self._stands() and not self._ended()):
                continue
            began = time.monotonic()
            verdict = await session.judge()
            self._judge_at = time.monotonic() + max(STEP, REST * (time.monotonic() - began))
            if not self._settled(verdict, past) and past < limit:
                self._so_far = f"; so far: {known_so_far(verdict)}" if past >= watch else ""
                continue
            await self._last_looks(say)
            verdict = await session.judge()
            if self._settled(verdict, past) or past >= limit:
                return await self._with_recorders(await self._with_ras(verdict, say), say)

    def _settled(self, verdict: Verdict, past: float) -> bool:
        sure = proven(verdict)
        one_more = THEN_EVERY if verdict.outcome == "hung" and not sure else 0.0  # it may know whose hang it is
        if not (sure or past >= self._watch + one_more) or not self._all_heard(past):
            return False
        job_status = status_of_job(self._session.job())
        return (sure or not self._undecided(verdict, job_status)) and not logs_behind(job_status)

    def _all_heard(self, past: float) -> bool:
        """Whoever may know a cause has said its first word, or is not waited for any longer."""
        nodes = [node for node in self._session.state.nodes.values() if node.tick is not None and node.link == "live"]
        return past >= FIRST_WORDS or all(node.has_heard(source) for node in nodes for source in CAUSES)

    def _fetch(self) -> None:
        """Fetch the dumps that lie on the nodes, once."""
        if self._dumps is None:
            self._dumps = asyncio.create_task(self._session.job_sources.recorders())

    async def _with_recorders(self, verdict: Verdict, say: Callable[[str], None]) -> Verdict:
        """The verdict, once flight recorders have had their say."""
        session = self._session
        say("fetching what flight recorders hold")
        assert self._dumps is not None, "they are asked for before anything is judged"
        await asyncio.wait([self._dumps], timeout=LAST_LOOK)
        found = self._dumps.done() and await fetched_whole(session.job_sources, self._dumps.result())
        if verdict.names_nobody and not session.options.read_only:
            found |= any(dump.size for dump in await session.job_sources.recorders(fresh=True))
        return await session.judge() if found else verdict

    def _ask_ras(self) -> None:
        """Ask NCCL's RAS about a job that stands still, where it has one; beside all else."""
        if self._stands() and (self._ras is None or self._ras.done()) and not self._heard:
            self._ras = asyncio.create_task(self._hear_ras())

    async def _hear_ras(self) -> None:
        """As many answers as tell counts that stand still, while the job does; none where there is no RAS."""
        while await self._session.job_sources.ras(again=RAS_GAP) is not None:
            self._heard += 1
            if self._heard == POLLS:
                return
            await asyncio.sleep(RAS_GAP)
            if not self._stands():
                return

    async def _with_ras(self, verdict: Verdict, say: Callable[[str], None]) -> Verdict:
        """The verdict, once RAS has had its say: one answer where a culprit is named, all where none is."""
        if verdict.outcome not in {"hung", "unknown"} or not self._stands() or self._ras is None:
            return verdict
        named = verdict.outcome == "hung" and not verdict.names_nobody
        wanted, seconds = (1, LAST_LOOK) if named else (POLLS, RAS_SECONDS)
        before, end = self._heard, time.monotonic() + seconds
        while self._heard < wanted and not self._ras.done() and time.monotonic() < end:
            say("waiting for what NCCL's RAS answers")
            await asyncio.wait([self._ras], timeout=STEP)
            self._session.tick()
        self._raise_faults()
        return await self._session.judge() if self._heard > before else verdict

    def stop(self) -> None:
        """Leave the looks alone that have not answered."""
        for late in [*self._looks, *(task for task in (self._dumps, self._ras) if task is not None)]:
            late.cancel()

    def _look(self) -> None:
        if not self._session.options.read_only:
            self._looks.append(asyncio.create_task(self._session.dump_stacks(None, unasked=True)))

    async def _ask_natively(self, say: Callable[[str], None]) -> None:
        """Read native frames where Python's leave open what happens, of ranks of a job that stands still."""
        session = self._session
        if session.options.read_only or not self._stands():
            return
        ranks = [rank for rank in native_wanted(session.job()) if rank not in self._asked]
        if ranks:
            say("reading native frames of one rank a place")
            self._asked.update(ranks)
            with suppress(TimeoutError):  # a node that is slower has no say in this
                await asyncio.wait_for(session.dump_stacks(ranks, native=True), LAST_LOOK)

    async def _last_looks(self, say: Callable[[str], None]) -> None:
        waiting = [look for look in self._looks if not look.done()]
        if waiting:
            say("waiting for the last stacks")
            await asyncio.wait(waiting, timeout=LAST_LOOK)
        self._session.tick()
        self._raise_faults()
        await self._ask_natively(say)

    def _raise_faults(self) -> None:
        for look in [*self._looks, *([self._ras] if self._ras is not None else [])]:
            if look.done() and not look.cancelled():
                look.result()

    def _ended(self) -> bool:
        """A rank that was seen is gone."""
        return any(
            rank.gone_at is not None for node in self._session.state.nodes.values() for rank in node.ranks.values()
        )

    def _stands(self) -> bool:
        still = self._session.progress.stood_still
        return still is not None and still >= LEAST

    def _undecided(self, verdict: Verdict, job_status: JobStatus) -> bool:
        """Nothing moved and nothing is known to be wrong, of ranks that are there; or nobody knows yet who is slow."""
        if verdict.outcome == "healthy" and time.monotonic() - self._began < SLOWNESS * self._watch:
            return self._readable() and not slowness_judged(job_status)
        if verdict.outcome == "waiting" and job_status.graph is not None:
            return any(one.read and not job_status.measured(one) for one in job_status.graph.culprits)
        return verdict.outcome == "unknown" and bool(self._session.living())

    def _readable(self) -> bool:
        """Stacks of two ranks at the least could be read."""
        return len({dump.rank_pid for _, dump in self._session.state.stacks if dump.threads}) > 1


def known_so_far(verdict: Verdict) -> str:
    """What a verdict knows, without how long which ranks were watched for it."""
    watched, _, told = verdict.summary.partition(": ")
    return told if ", watched for " in watched else verdict.summary


def proven(verdict: Verdict) -> bool:
    """A hang or a crash whose culprit is named, not merely possible: watching on would only make it older."""
    first = verdict.findings[0] if verdict.findings else None
    return (
        first is not None
        and verdict.outcome in {"hung", "crashed"}
        and first.severity == "critical"
        and not verdict.names_nobody
        and first.certainty != "possible"
        and word_of(first.kind) == verdict.outcome
        and bool(first.ranks)
    )
