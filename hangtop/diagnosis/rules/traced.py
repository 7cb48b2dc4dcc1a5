"""What profiler traces that lie among a run's files prove."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job


def traced(job: Job) -> Iterator[Finding]:
    """straggler_rank, data_bound, communication_bound: as the traces of the ranks show them together.

    Needs a trace; for a straggler, those of several ranks.
    """
    if job.traces:
        yield from traces.findings(traces.picture(job.traces))
