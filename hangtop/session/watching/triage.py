"""When the answer of a short watch is settled: a hang once its culprit is named; a doubtful answer needs longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.rules.slow import slowness_judged
from hangtop.diagnosis.stacks.states import Kind
from hangtop.diagnosis.tables.kinds import WAITS_END, word_of
from hangtop.diagnosis.waits.job_status import JobStatus, status_of_job
from hangtop.diagnosis.waits.wake_set import WakeProgress

if TYPE_CHECKING:
    from hangtop.session.session import Session

STEP = 0.25
"""Seconds between two ticks."""
LEAST = 1.0
"""Seconds before any answer, for two samples that agree."""
AT_MOST, AT_LEAST_TO = 6.0, 27.0
"""Limit for an undecided job: this multiple of the watch, or this many seconds, whichever is more."""
ONE_MORE = 2.0
"""Further seconds to watch a hang without a named culprit: another sample may show the culprit."""
SLOWNESS = 3.0
"""Multiple of the watch for which a moving job may be watched until a slow rank, or a collective, can be judged."""
CLOCK_S = 2.0
"""Seconds by which a wait that is older than the watch may seem younger: the progress clock needs two updates."""
STARTS: frozenset[Kind] = frozenset(("init", "store", "compile"))
"""Kinds of stacks that a rank shows before it trains."""
CAUSES = ("kernel", "gpus", "fabric", "network", "disks", "host", "logs")
"""Sources that may know the cause of what stacks show: there is no answer before each has sent its first state, …"""
FIRST_WORDS = 6.0
"""… or this many seconds of watching have passed: the answer then lists the source as unknown."""
SOON = 5.0
"""Further seconds to watch a wait that is about to count as a hang, and a crash in which only victims are known, until
the rank that ended first is known."""


async def watch_until_sure(session: Session, watch: float, say: Callable[[str], None]) -> Verdict:
    """Watch for ``watch`` seconds: less if a hang is found before, more if nothing is decided by then."""
    watcher = session.watcher
    watcher.hurried = True
    session.state.started = session.now()  # the time before was spent connecting
    limit, so_far = max(AT_LEAST_TO, AT_MOST * watch), ""
    try:
        while True:
            past = session.now() - session.state.started
            say(f"watching {len(session.living())} ranks: {past:.0f} of {watch:.0f} s{so_far}")
            await asyncio.sleep(STEP)
            verdict = await watcher.step()
            if verdict is None or past < LEAST:
                continue
            if past < limit and not _settled(session, verdict, past, watch):
                so_far = f"; so far: {verdict.summary}" if past >= watch else ""
                continue
            say("waiting for the last answers")
            verdict = await watcher.last_word(verdict)
            if past >= limit or _settled(session, verdict, past, watch):
                return verdict
    finally:
        watcher.close()


def culprit_named(verdict: Verdict) -> bool:
    """Whether the verdict is a hang or crash that names its ranks with certainty ``proven`` or ``likely``."""
    first = verdict.findings[0] if verdict.findings else None
    return (
        first is not None
        and verdict.outcome in {"hung", "crashed"}
        and not verdict.names_nobody
        and first.certainty != "possible"
        and word_of(first.kind) == verdict.outcome
        and bool(first.ranks)
    )


def _settled(session: Session, verdict: Verdict, past: float, watch: float) -> bool:
    sure = culprit_named(verdict)
    enough = watch + (ONE_MORE if verdict.outcome == "hung" else 0.0)
    nodes = [node for node in session.state.nodes.values() if node.tick is not None and node.link == "live"]
    heard = past >= FIRST_WORDS or all(node.has_heard(source) for node in nodes for source in CAUSES)
    if not heard or not (sure or past >= enough):
        return False
    job_status = status_of_job(session.job())
    return (sure or not undecided(session, verdict, job_status, past, watch)) and not logs_behind(job_status)


def undecided(session: Session, verdict: Verdict, job_status: JobStatus, past: float, watch: float) -> bool:
    """Whether longer watching may change the answer.

    That is so if a wait is about to count as a hang; if native frames may yet show that a rank which is hardly busy
    waits for its GPU, in a poll with naps; if only victims of a crash are known (the end of the lost rank may be seen
    within seconds); if a job that moves, or moved before its present wait, was not yet judged for slowness; or if
    living ranks are ``unknown``. A job that seems to start may also hang or train: its node may be overloaded, or all
    samples fell between two collectives.
    """
    living, graph = session.living(), job_status.graph
    readable = len({(node, dump.rank_pid) for node, dump in session.state.stacks if dump.threads})
    if verdict.outcome not in {"hung", "crashed"}:
        for one in graph.culprits:
            soon = graph.held < job_status.due(one) <= graph.held + SOON
            open_ended = one.activity is not None and one.activity.needs_native and not one.motion.busy
            native = open_ended and past < SLOWNESS * watch and not session.options.read_only
            if one.read and (soon or native or job_status.wake_set(one).progress is WakeProgress.UNKNOWN):
                return True
    match verdict.outcome:
        case "crashed":
            return verdict.findings[0].kind in WAITS_END and past < watch + SOON
        case "healthy" | "waiting":
            moved = verdict.outcome == "healthy" or job_status.lasted(graph.held) < past - CLOCK_S
            return moved and past < SLOWNESS * watch and readable > 1 and not slowness_judged(job_status)
        case "starting":
            starts = any(sample.kind in STARTS for status in job_status.read for sample in status.readings)
            return 2 * readable < len(living) or (not starts and past < SLOWNESS * watch)
        case "unknown":
            return bool(living)
        case _:
            return False
