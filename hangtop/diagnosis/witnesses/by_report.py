"""Whose words are those that bear no rank: the one rank that the launcher of the same log reports as failed."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.ends import is_victim
from hangtop.diagnosis.witnesses.failures import failures
from hangtop.diagnosis.witnesses.messages import hosts_in, ranks_in

_REPORTS = ("elastic.fail", "launcher.exit")


def whose(job: Job, events: Sequence[LogEvent]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ranks and hosts of words about a failure: their own, else those of the only rank that a report names.

    Ranks that the launcher ended itself are no failures. Of a live job no rank is taken from a report: others may have
    told of what they survived.
    """
    ranks, hosts = ranks_in(events), hosts_in(job, events)
    if ranks or job.live or not events:
        return ranks, hosts
    sources = {event.source for event in events}
    told = [
        failure
        for failure in failures(job)
        if failure.rank is not None
        and failure.event.kind.startswith(_REPORTS)
        and failure.event.source in sources
        and not failure.consequence
        and not is_victim(failure)
    ]
    if len({failure.rank for failure in told}) != 1:
        return ranks, hosts
    own = tuple(failure.rank for failure in told[:1] if failure.rank is not None)
    return own, hosts or tuple(sorted({failure.host for failure in told} - {""}))
