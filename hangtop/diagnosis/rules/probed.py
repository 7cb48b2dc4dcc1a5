"""What probes that somebody asked for have measured: proof for or against the network, as long as it is fresh."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import probes

FRESH = 600.0
"""Ours, seconds: links and nodes that were bad ten minutes ago may have been mended since."""


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
