"""Torch's watchdog ended ranks, and what it had to say before is not in what was read."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.rules.nccl_log import failing_warnings
from hangtop.diagnosis.witnesses.failures import failures
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

TOLD = ("torch.watchdog_timeout", "torch.watchdog_status", "torch.watchdog_error", "torch.watchdog_stuck")
"""Words that say more; rules of their own read them."""


def taken_down(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by torch's last words alone: NCCL operations failed or timed out, the process is taken down.

    Needs them, and nothing that says why.
    """
    events = said(job, "torch.taken_down")
    why = any(said(job, kind) for kind in TOLD) or any(not word.consequence for word in failures(job))
    if not events or job.live or why or failing_warnings(job):
        return
    yield Finding(
        "watchdog_timeout", "critical", 0.5,
        f"torch's watchdog took {who(ranks_in(events))} down: NCCL operations failed or timed out, which ones is not "
        "in what was read",
        nodes=hosts_in(job, events), evidence=lines(events),
        advice="A consequence: look at the lines before, and at the logs of the other ranks.",
    )  # fmt: skip
