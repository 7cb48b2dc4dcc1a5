"""What the members of each communicator have launched, and the waits that follow from it, by all sources."""

from __future__ import annotations

from hangtop.diagnosis.collectives.counts import progress_by_log, progress_by_ras
from hangtop.diagnosis.collectives.progress import LaunchProgress, WaitEdge
from hangtop.diagnosis.collectives.recorder import matched_dumps
from hangtop.diagnosis.collectives.watchdog import timed_out
from hangtop.diagnosis.job import Job, once


def progress_of(job: Job) -> tuple[LaunchProgress, ...]:
    """Communicators by the flight recorder, watchdogs, NCCL RAS and NCCL's log; one record for each source."""
    return (*matched_dumps(job).progress, *_without_dumps(job))


@once
def waits_of(job: Job) -> tuple[WaitEdge, ...]:
    """Edges of all sources, the flight recorder's first: they are the most complete and exact.

    Sources may contradict each other: follow certain edges first.
    """
    return (*matched_dumps(job).edges, *(edge for progress in _without_dumps(job) for edge in progress.edges()))


def _without_dumps(job: Job) -> tuple[LaunchProgress, ...]:
    return (*(group.progress for group in timed_out(job)), *progress_by_ras(job), *progress_by_log(job))
