"""What profiler traces prove: those among a run's files, or those that somebody asked for, while they are fresh."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job

FRESH = 600.0
"""Ours, seconds: of a running job older traces say how it was, not how it is."""


def traced(job: Job) -> Iterator[Finding]:
    """straggler_rank, data_bound, communication_bound: as the traces of the ranks show them together.

    Needs a trace, of a running job one that tells its time and began minutes ago; for a straggler, those of several
    ranks.
    """
    if job.traces is None:
        return
    began = max((trace.began or 0.0 for trace in job.traces.ranks), default=0.0)
    if not job.live or abs(job.now - began) < FRESH:
        yield from traces.findings(job.traces)
