"""Watch a job until its verdict is sure: a hang is told as soon as it is proven, doubt is watched on for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hangtop.diagnosis.collectives.counts import POLLS
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.rules.slow import slowness_judged
from hangtop.diagnosis.stacks.states import Kind
from hangtop.diagnosis.tables.kinds import WAITS_END, word_of
from hangtop.diagnosis.waits.job_status import JobStatus, status_of_job

if TYPE_CHECKING:
    from hangtop.session.session import Session

STEP = 0.25
"""Seconds between two ticks."""
LOOKS, THEN_EVERY = (0.0, 0.09, 0.25, 0.5, 0.75, 1.0), 2.0
"""When stacks are looked at, as shares of the watch, uneven, so that a rhythm of the job is not met in step; and
seconds between two looks once the watch is over and nothing is decided."""
LEAST = 1.0
"""Seconds before any answer: two looks that show the same."""
AT_MOST, AT_LEAST_TO = 6.0, 27.0
"""Watches that an undecided job is given at the most, or so many seconds, whichever is more."""
SLOWNESS = 3.0
"""Watches in which a job that moves may be looked at until a slow rank, or a collective, could be told."""
STARTS: frozenset[Kind] = frozenset(("init", "store", "compile"))
"""What a rank is seen to do before it trains."""
REST = 4.0
"""Times that a verdict takes, until the next one."""
CAUSES = ("kernel", "gpus", "fabric", "network", "disks", "host", "logs")
"""Sources that may tell a cause of what stacks show: none is answered without before it has said its first word, ..."""
FIRST_WORDS = 6.0
"""... or, after so many seconds of watching, without it: it is unknown then, and said to be."""
SOON = 5.0
"""Seconds within which a wait that is blocked inside the job is watched until it is called a hang, and a crash of which
victims alone tell until the rank is known that ended first."""
LAST_LOOK = 4.0
"""Seconds that the answer waits for stacks and dumps that were asked for last; what comes later is not known."""
RAS_GAP, RAS_SECONDS = 1.5, 12.0
"""Seconds between an answer of NCCL's RAS and the next question, of a job that stands still; and that an answer which
names nobody waits for RAS, which itself takes up to 10 s where ranks are silent."""


async def watch_until_sure(session: Session, watch: float, say: Callable[[str], None]) -> Verdict:
    """Watch for ``watch`` seconds, less where the job is seen to hang before, more where nothing is decided by then.

    Stacks are looked at meanwhile, and native frames of one rank a point once the job stands still; nothing of that
    under ``--read-only``. A slow node delays nobody else's next look. Flight recorder dumps that lie there are fetched
    meanwhile; recorders that are armed are asked for new ones where the job hangs and no rank is odd. While the job
    stands still NCCL's RAS is asked.
    """
    triage = _Triage(session, watch, say)
    session.watched_from(session.now())
    try:
        return await triage.run()
    finally:
        session.watcher.close()


class _Triage:
    """One watch."""

    def __init__(self, session: Session, watch: float, say: Callable[[str], None]) -> None:
        self._session, self._watcher = session, session.watcher
        self._watch, self._say = watch, say
        self._began = time.monotonic()
        self._looks = self._ras_answers = 0
        self._dumps_asked = False

    @property
    def _past(self) -> float:
        return time.monotonic() - self._began

    async def run(self) -> Verdict:
        session, watch = self._session, self._watch
        limit = max(AT_LEAST_TO, AT_MOST * watch)
        judge_at, so_far = 0.0, ""
        while True:
            self._look_when_due()
            self._say(f"watching {len(session.living())} ranks: {self._past:.0f} of {watch:.0f} s{so_far}")
            await asyncio.sleep(STEP)
            await self._watcher.tick()
            if self._past < LEAST:
                continue
            if not self._dumps_asked:
                self._dumps_asked = True
                self._watcher.ask("recorders", session.job_sources.recorders())
            stands = self._watcher.stands(LEAST)
            if stands:
                if not self._ras_answers:
                    self._watcher.ask("RAS", self._hear_ras())
                await self._watcher.look_natively(again=False)
            if time.monotonic() < judge_at or (self._past < watch and not stands and not self._ended()):
                continue
            began = time.monotonic()
            verdict = await self._watcher.judge()
            judge_at = time.monotonic() + max(STEP, REST * (time.monotonic() - began))
            past = self._past
            if not self._settled(verdict, past) and past < limit:
                so_far = f"; so far: {verdict.summary}" if past >= watch else ""
                continue
            self._say("waiting for the last stacks")
            await self._watcher.answers("look", "native look", seconds=LAST_LOOK)
            await self._watcher.look_natively(again=False)
            verdict = await self._watcher.judge()
            if self._settled(verdict, past) or past >= limit:
                return await self._with_recorders(await self._with_ras(verdict))

    def _look_when_due(self) -> None:
        number = self._looks
        due = LOOKS[number] * self._watch if number < len(LOOKS) else self._watch + THEN_EVERY * (number - len(LOOKS))
        if self._past >= due:
            self._looks += 1
            self._watcher.look(f"look {number}")

    def _ended(self) -> bool:
        """A rank that was seen is gone."""
        nodes = self._session.state.nodes.values()
        return any(rank.gone_at is not None for node in nodes for rank in node.ranks.values())

    # --- whether the answer is sure ----------------------------------------------------------------------------------

    def _settled(self, verdict: Verdict, past: float) -> bool:
        sure = proven(verdict)
        one_more = THEN_EVERY if verdict.outcome == "hung" and not sure else 0.0  # it may know whose hang it is
        nodes = [node for node in self._session.state.nodes.values() if node.tick is not None and node.link == "live"]
        heard = past >= FIRST_WORDS or all(node.has_heard(source) for node in nodes for source in CAUSES)
        if not heard or not (sure or past >= self._watch + one_more):
            return False
        job_status = status_of_job(self._session.job())
        return (sure or not self._undecided(verdict, job_status)) and not logs_behind(job_status)

    def _undecided(self, verdict: Verdict, job_status: JobStatus) -> bool:
        """Nothing moved and nothing is known to be wrong, of ranks that are there; or nobody knows yet who is slow.

        Where only victims have spoken, the end of the rank that they lost may be seen within seconds.

        A job that seems to start may as well hang, or train: a node may be overloaded, stacks that change quickly are
        torn, and a few looks may all fall between two collectives.
        """
        session, graph = self._session, job_status.graph
        if verdict.outcome == "crashed" and verdict.findings[0].kind in WAITS_END:
            return self._past < self._watch + SOON
        if verdict.outcome == "healthy" and self._past < SLOWNESS * self._watch:
            return self._readable() > 1 and not slowness_judged(job_status)
        if verdict.outcome not in ("hung", "crashed") and graph is not None:
            for one in graph.culprits:
                soon = graph.held < job_status.due(one) <= graph.held + SOON
                if one.read and (soon or not job_status.measured(one)):
                    return True
        if verdict.outcome == "starting" and not session.options.read_only:
            starts = any(look.kind in STARTS for status in job_status.read for look in status.readings)
            return 2 * self._readable() < len(session.living()) or (not starts and self._past < SLOWNESS * self._watch)
        return verdict.outcome == "unknown" and bool(session.living())

    def _readable(self) -> int:
        """Ranks of which a look has frames."""
        return len({(node, dump.rank_pid) for node, dump in self._session.state.stacks if dump.threads})

    # --- the job's own sources ---------------------------------------------------------------------------------------

    async def _with_recorders(self, verdict: Verdict) -> Verdict:
        """The verdict, once flight recorders have had their say; ranks of one time-out write theirs seconds apart."""
        session = self._session
        self._say("fetching what flight recorders hold")
        await self._watcher.answers("recorders", seconds=LAST_LOOK)
        if 0 < len(session.state.recorders) < len(session.living()):
            await session.job_sources.recorders()
        if verdict.names_nobody and not session.options.read_only:
            await session.job_sources.recorders(fresh=True)
        return await self._watcher.judge() if session.state.recorders else verdict

    async def _hear_ras(self) -> None:
        """As many answers as tell counts that stand still, while the job does; none where there is no RAS."""
        while self._ras_answers < POLLS and await self._session.job_sources.ras(again=RAS_GAP) is not None:
            self._ras_answers += 1
            await asyncio.sleep(RAS_GAP)
            if not self._watcher.stands(LEAST):
                return

    async def _with_ras(self, verdict: Verdict) -> Verdict:
        """The verdict, once RAS has had its say, which is waited for longer where no culprit is named."""
        if verdict.outcome not in {"hung", "unknown"} or not self._watcher.asking("RAS"):
            return verdict
        self._say("waiting for what NCCL's RAS answers")
        named = verdict.outcome == "hung" and not verdict.names_nobody
        await self._watcher.answers("RAS", seconds=LAST_LOOK if named else RAS_SECONDS)
        return await self._watcher.judge()


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
