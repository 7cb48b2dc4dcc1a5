"""When the answer of a short watch is settled: a hang as soon as it is proven, doubt is watched on for a while."""

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

if TYPE_CHECKING:
    from hangtop.session.session import Session

STEP = 0.25
"""Seconds between two ticks."""
LEAST = 1.0
"""Seconds before any answer: two looks that show the same."""
AT_MOST, AT_LEAST_TO = 6.0, 27.0
"""Watches that an undecided job is given at the most, or so many seconds, whichever is more."""
ONE_MORE = 2.0
"""Seconds that a hang which is not proven is watched on: another look may know whose hang it is."""
SLOWNESS = 3.0
"""Watches in which a job that moves may be looked at until a slow rank, or a collective, could be told."""
STARTS: frozenset[Kind] = frozenset(("init", "store", "compile"))
"""What a rank is seen to do before it trains."""
CAUSES = ("kernel", "gpus", "fabric", "network", "disks", "host", "logs")
"""Sources that may tell a cause of what stacks show: none is answered without before it has said its first word, …"""
FIRST_WORDS = 6.0
"""… or, after so many seconds of watching, without it: it is unknown then, and said to be."""
SOON = 5.0
"""Seconds within which a wait that is blocked inside the job is watched until it is called a hang, and a crash of which
victims alone tell until the rank is known that ended first."""


async def watch_until_sure(session: Session, watch: float, say: Callable[[str], None]) -> Verdict:
    """Watch for ``watch`` seconds, less where the job is seen to hang before, more where nothing is decided by then."""
    watcher = session.watcher
    watcher.hurried = True
    session.state.started = session.now()  # what came before was connecting
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


def proven(verdict: Verdict) -> bool:
    """A hang or a crash whose culprit is named, not merely possible: watching on would only make it older."""
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
    sure = proven(verdict)
    enough = watch + (ONE_MORE if verdict.outcome == "hung" else 0.0)
    nodes = [node for node in session.state.nodes.values() if node.tick is not None and node.link == "live"]
    heard = past >= FIRST_WORDS or all(node.has_heard(source) for node in nodes for source in CAUSES)
    if not heard or not (sure or past >= enough):
        return False
    job_status = status_of_job(session.job())
    return (sure or not _undecided(session, verdict, job_status, past, watch)) and not logs_behind(job_status)


def _undecided(session: Session, verdict: Verdict, job_status: JobStatus, past: float, watch: float) -> bool:
    """Nothing moved and nothing is known to be wrong, of ranks that are there; or nobody knows yet who is slow.

    Where only victims have spoken, the end of the rank that they lost may be seen within seconds.

    A job that seems to start may as well hang, or train: a node may be overloaded, stacks that change quickly are torn,
    and a few looks may all fall between two collectives.
    """
    living, graph = session.living(), job_status.graph
    readable = len({(node, dump.rank_pid) for node, dump in session.state.stacks if dump.threads})
    if verdict.outcome not in {"hung", "crashed"} and graph is not None:
        for one in graph.culprits:
            soon = graph.held < job_status.due(one) <= graph.held + SOON
            if one.read and (soon or not job_status.measured(one)):
                return True
    match verdict.outcome:
        case "crashed":
            return verdict.findings[0].kind in WAITS_END and past < watch + SOON
        case "healthy":
            return past < SLOWNESS * watch and readable > 1 and not slowness_judged(job_status)
        case "starting" if not session.options.read_only:
            starts = any(look.kind in STARTS for status in job_status.read for look in status.readings)
            return 2 * readable < len(living) or (not starts and past < SLOWNESS * watch)
        case "unknown":
            return bool(living)
        case _:
            return False
