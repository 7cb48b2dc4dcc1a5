"""Findings of the checks inside the job (``hangtop.inside``)."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.tables.kinds import KINDS

SEVERITIES: dict[str, Severity] = {"critical": "critical", "warning": "warning"}
SAME_CHECK_S = 5.0
"""Ours: seconds within which ranks report the result of one check."""


def checks(job: Job) -> Iterator[Finding]:
    """Findings of the latest run of each ``hangtop.inside`` check, by the ranks that live.

    Equal findings of several ranks are one finding. A later run of a check without a finding withdraws the earlier one.
    """
    living = [rank.inside for rank in job.ranks if rank.gone_at is None and rank.inside is not None]
    results = [result for inside in living for result in inside.results]
    newest: dict[tuple[str, tuple[int, ...]], float] = {}
    for result in results:
        key = result.check, tuple(result.ranks)
        newest[key] = max(newest.get(key, 0.0), result.at)
    yield from dict.fromkeys(
        Finding(
            finding.kind, SEVERITIES.get(finding.severity, "info"), 0.95, finding.summary,
            ranks=tuple(sorted(finding.ranks)), nodes=homes(job, finding.ranks), advice=finding.advice,
            evidence=tuple(Evidence(Observer.INSIDE, f"hangtop.inside check {result.check}", None, line)
                           for line in finding.evidence),
        )
        for result in results
        if result.at >= newest[result.check, tuple(result.ranks)] - max(SAME_CHECK_S, result.seconds)
        for finding in result.findings if finding.kind in KINDS
    )  # fmt: skip


RULES = (checks,)
