"""The waits that all sources tell."""

from __future__ import annotations

from hangtop.diagnosis.collectives.counts import progress_by_log, progress_by_ras
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.collectives.recorder import matched_dumps
from hangtop.diagnosis.collectives.watchdog import timed_out
from hangtop.diagnosis.job import Job


def waits_of(job: Job) -> tuple[WaitEdge, ...]:
    """Edges of all sources, the flight recorder's first: it sees most, and most exactly.

    Sources may contradict each other: certain edges are to be followed first.
    """
    told = (*(group.progress for group in timed_out(job)), *progress_by_ras(job), *progress_by_log(job))
    return (*job.once(matched_dumps).edges, *(edge for progress in told for edge in progress.edges()))
