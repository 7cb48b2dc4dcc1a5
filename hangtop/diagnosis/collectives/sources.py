"""The waits that all sources tell, and the flight recorder dumps that are the job's."""

from __future__ import annotations

from hangtop.diagnosis.collectives.counts import progress_by_log, progress_by_ras
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.collectives.recorder import Matched, match
from hangtop.diagnosis.collectives.watchdog import timed_out
from hangtop.diagnosis.job import Job

CLOCKS_APART = 5.0
"""Seconds by which the clock in a dump may differ from ours."""


def waits_of(job: Job) -> tuple[WaitEdge, ...]:
    """Edges of all sources, the flight recorder's first: it sees most, and most exactly.

    Sources may contradict each other: certain edges are to be followed first.
    """
    told = (*(group.progress for group in timed_out(job)), *progress_by_ras(job), *progress_by_log(job))
    return (*job.once(matched_dumps).edges, *(edge for progress in told for edge in progress.edges()))


def matched_dumps(job: Job) -> Matched:
    """The flight recorder dumps of the job, put side by side; ask by ``job.once``, for it takes its time.

    Live, none that is older than the process that has the rank now.
    """
    started = {rank.rank: rank.process.started for rank in job.ranks} if job.live else {}
    return match(
        dump for dump in job.recorders if dump.at is None or dump.at >= started.get(dump.rank, dump.at) - CLOCKS_APART
    )
