"""Exceptions out of NCCL, where nothing else says why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.nccl_log import failing_warnings, retried
from hangtop.diagnosis.witnesses.beside import called, hosts_alike
from hangtop.diagnosis.witnesses.devices import event_line
from hangtop.diagnosis.witnesses.event_fields import text_of
from hangtop.diagnosis.witnesses.failures import Failure, cuda_error, failures
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said


def raised_in_nccl(ended: Sequence[tuple[Failure, ...]]) -> list[Failure]:
    """Errors that ranks raised out of NCCL, of all words about ranks that ended."""
    return [own[0] for own in ended if text_of(own[0].event, "signature") == "nccl" and not own[0].consequence]


def failed_in_nccl(job: Job, failed: Sequence[Failure]) -> Finding:
    """rank_crashed: all that is known is that a call into NCCL failed; its own warning is not in the logs."""
    ranks = tuple(sorted({failure.rank for failure in failed if failure.rank is not None}))
    nodes = homes(job, ranks) or tuple(sorted({host for own in failed for host in hosts_alike(own, ())}))
    named = who(ranks, called(failure.event for failure in failed))
    return Finding(
        "rank_crashed", "critical", 0.5, f"{named} failed in NCCL: {failed[0].what}",
        ranks=ranks, nodes=nodes, evidence=tuple(event_line(failure.event) for failure in failed[:3]),
        advice="NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
    )  # fmt: skip


def told_of_nccl(job: Job) -> Iterator[Finding]:
    """rank_crashed by torch's word of an error of NCCL alone: no exception tells it, and no warning says why.

    Needs a log that is over: a communicator that is aborted on purpose says the same.
    """
    events = [
        event
        for event in said(job, "torch.watchdog_error")
        if event.data.get("consequence") is not True
        and not cuda_error(event)
        and "imeout" not in text_of(event, "error")
    ]
    if not events or job.live or failures(job) or failing_warnings(job) or retried(job):
        return
    if said(job, "torch.watchdog_timeout") or said(job, "nccl.failed"):
        return
    yield Finding(
        "rank_crashed", "critical", 0.5, f"{who(ranks_in(events))} failed in NCCL: {text_of(events[0], 'error')}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
    )  # fmt: skip
