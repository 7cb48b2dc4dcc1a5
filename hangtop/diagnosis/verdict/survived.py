"""What ranks of a live job told of a fault and survived: they caught it, and work on.

A program that skips a batch for want of memory logs the same traceback as one that ends by it. Where its ranks live and
the job moves since, it is no end; where they live and hold the others up, the job hangs, whatever the reason is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hangtop.diagnosis.failures.first import ENDED, LATE_S, WENT_ON_S
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus

ADVICE = "No alarm: the program caught it. Look whether what it skips then is missed."


def with_survived(job_status: JobStatus, findings: Iterable[Finding]) -> list[Finding]:
    """The same findings; ends of ranks that live in a job that moves on since are information."""
    return [_as_information(one) if _survived(job_status, one) else one for one in findings]


def held_up_alive(job_status: JobStatus, finding: Finding) -> bool:
    """Whether the ranks whose end a finding tells live, are in their program, and are whom the others wait for."""
    if job_status.graph is None or not job_status.hung or not _tells_an_end(job_status, finding):
        return False
    culprits = {one.rank for one in job_status.graph.culprits if one.state == "working" and one.read}
    return set(finding.ranks) <= culprits


def _tells_an_end(job_status: JobStatus, finding: Finding) -> bool:
    ended = word_of(finding.kind) == "crashed" and finding.severity == "critical"
    return job_status.job.live and ended and bool(finding.ranks)


def _survived(job_status: JobStatus, finding: Finding) -> bool:
    job = job_status.job
    if not _tells_an_end(job_status, finding) or not job.motion.moving:
        return False
    ranks = [job_status.statuses.get(rank) for rank in finding.ranks]
    if not all(status is not None and status.present and status.state not in ENDED for status in ranks):
        return False
    told = min((line.at for line in finding.evidence if line.at is not None), default=None)
    if all(status is not None and _works_on(status, told) for status in ranks):
        return True
    if told is None:
        return False
    return (job.motion.last_step_at or 0.0) > told + LATE_S or job.now - told > WENT_ON_S


def _works_on(status: RankStatus, told: float | None) -> bool:
    """It was looked into since, and was in its program."""
    return status.activity is not None and status.read and (told is None or status.activity.at > told)


def _as_information(finding: Finding) -> Finding:
    goes_on = "it lives" if len(finding.ranks) == 1 else "they live"
    return replace(
        finding, severity="info", summary=f"{finding.summary}; {goes_on}, and the job moves on", advice=ADVICE
    )
