"""What keeps a job that moves from being healthy, before it is known what it means: silent nodes, ranks that ended."""

from __future__ import annotations

from hangtop.diagnosis.failures.first import left_at_exit
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import duration, ranks_on
from hangtop.diagnosis.verdict.aftermath import finished
from hangtop.diagnosis.waits.job_status import JobStatus

APART_S = 5.0
"""Ours: ranks that end well do so within a second of each other, and within some more on a node without a free core."""
STEP_SLACK_S = 2.0
"""Ours: a step that was under way may still be told."""


def gone_quiet(job: Job) -> str:
    """Which nodes sent nothing for how long, so that it is open whether the job moves; empty where none did."""
    heard = {
        name: node.seen_at for name, node in job.nodes.items() if node.link == "stale" and node.seen_at is not None
    }
    if not heard:
        return ""
    have = "have" if len(heard) > 1 else "has"
    return f"{nodes_text(sorted(heard))} {have} sent nothing for {duration(max(0.0, job.now - min(heard.values())))}"


def ended_alone(job_status: JobStatus) -> str:
    """Which ranks ended while the others stay, and nothing tells how; empty where none did, or steps go on since.

    Who is done says so, or ends within seconds of the others.
    """
    job = job_status.job
    gone = [one for one in job_status.of("gone") if one.held >= APART_S]
    if not gone or not job_status.present or finished(job):
        return ""
    told = by_rank(failures(job)).keys() | left_at_exit(job).keys()
    gone = [one for one in gone if one.rank not in told]
    if not gone:
        return ""
    first = max(one.held for one in gone)
    if job.motion.last_step_at is not None and job.motion.last_step_at > job.now - first + STEP_SLACK_S:
        return ""
    return (
        f"{ranks_on((one.rank for one in gone), (one.node for one in gone))} ended {duration(first)} ago while the "
        "others stay, and nothing that was read says how"
    )
