"""What was measured in this session and is fresh: probes, and profiler traces."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.probes import ProbeReport
from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import probes

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


def probed(job: Job) -> Iterator[Finding]:
    """slow_node, slow_link, packet_loss, path_blocked, bandwidth_low, silent_corruption: as probes find them.

    Needs a probe of collectives in this session; of several with the same backend the last one counts.
    """
    last: dict[str, ProbeReport] = {}
    for report in job.probed:
        if report.outcome != "cancelled" and 0.0 <= job.now - report.at < FRESH:
            last[report.backend] = report
    for report in last.values():
        yield from probes.measured(report, job)
