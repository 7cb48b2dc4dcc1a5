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
    return not _behind(job, at)


def logs_behind(job_status: JobStatus) -> tuple[str, ...]:
    """Nodes whose logs have not been read since the last rank ended, left or told of a failure.

    None: the first to fail is known by now.
    """
    job = job_status.job
    ended = [status.process.gone_at for status in job_status.of("gone") if status.process is not None]
    left = [job.now - status.held for status in job_status.of("leaving")]
    failed = [failure.at for failure in failures(job)]
    times = [min(at, job.now) for at in (*ended, *left, *failed) if at is not None]
    return _behind(job, max(times)) if times else ()


def _behind(job: Job, at: float) -> tuple[str, ...]:
    if not job.live or job.now - at >= UNREAD_S:
        return ()
    return tuple(sorted(name for name, node in job.nodes.items() if _reads(node) and not _read_since(node, at)))


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"


def _read_since(node: Node, at: float) -> bool:
    return node.logs_read is not None and node.logs_read >= at
