"""Whether logs have been read since a rank ended: before that, nobody can say that it left no word."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.tables.thresholds import UNREAD_S
from hangtop.diagnosis.witnesses.failures import failures

if TYPE_CHECKING:
    from hangtop.diagnosis.waits.job_status import JobStatus


def logs_read_to(job: Job) -> float:
    """What logs said until then is known, or will not be: by every node that reads any, as each may read another's.

    For more than ``UNREAD_S`` seconds nobody is waited for.
    """
    behind = [_read_to(node) for node in job.nodes.values() if _reads(node)] if job.live else []
    return max(min(behind), job.now - UNREAD_S) if behind else inf


def logs_behind(job_status: JobStatus) -> tuple[str, ...]:
    """Nodes whose logs have not been read since the last rank ended, left or told of a failure.

    None: the first to fail is known by now.
    """
    job = job_status.job
    ended = [job.now - status.held for status in job_status.of("gone", "leaving")]
    failed = [min(failure.at, job.now) for failure in failures(job) if failure.at is not None]
    last = max((*ended, *failed), default=-inf)
    if last <= logs_read_to(job):
        return ()
    return tuple(sorted(name for name, node in job.nodes.items() if _reads(node) and _read_to(node) < last))


def was_read(job: Job, rank: Rank, until: float) -> bool:
    """Whether all that a rank wrote to its standard error by then is known: it is a file, which any node may read."""
    path = rank.process.stderr
    readers = [node for node in job.nodes.values() if _reads(node)]
    own = path.startswith("/") and not path.startswith("/dev/")
    return own and _reads(job.nodes[rank.node]) and min(map(_read_to, readers)) >= until


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"


def _read_to(node: Node) -> float:
    return -inf if node.logs_read is None else node.logs_read
