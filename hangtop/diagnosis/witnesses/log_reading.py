"""Whether logs have been read since a rank ended: before that, nobody can say that it left no word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.tables.thresholds import UNREAD_S
from hangtop.diagnosis.witnesses.failures import failures

if TYPE_CHECKING:
    from hangtop.diagnosis.waits.job_status import JobStatus


def logs_read_since(job: Job, at: float) -> bool:
    """What logs said until ``at`` is known, or will not be: by every node that reads any, as each may read another's.

    After ``UNREAD_S`` seconds nobody is waited for any longer.
    """
    if not job.live or job.now - at >= UNREAD_S:
        return True
    return not any(_reads(node) and (node.logs_read is None or node.logs_read < at) for node in job.nodes.values())


def ends_told(job_status: JobStatus) -> bool:
    """Logs have been read since the last rank ended, left or told of a failure: the first to fail is known by now."""
    job = job_status.job
    ended = [status.process.gone_at for status in job_status.of("gone") if status.process is not None]
    left = [job.now - status.held for status in job_status.of("leaving")]
    failed = [failure.at for failure in failures(job)]
    times = [min(at, job.now) for at in (*ended, *left, *failed) if at is not None]
    return not times or logs_read_since(job, max(times))


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"
