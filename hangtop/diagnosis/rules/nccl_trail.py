"""The trail that an error leaves in NCCL's INFO lines, and XLA's words about calls that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.failures import failures
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

_OF_OTHERS = re.compile(r"(?i)remote|abort|peer|closed|reset")
RESULTS = {1: "unhandled CUDA error", 2: "unhandled system error", 3: "internal error", 5: "invalid usage"}
"""``ncclResult_t``; 4 and 6 are told by who passed the argument, and by the peer."""


def trail(job: Job) -> Iterator[Finding]:
    """nccl_init_failed by the trail that an error leaves in NCCL's INFO lines, or by XLA's word about such a call.

    Needs ``bootstrap.cc:275 -> 2`` and the like, which must have reached the start of a communicator; a warning of NCCL
    says more.
    """
    failed = [event for event in said(job, "nccl.failed") if _starts(event)]
    events = (*failed, *said(job, "nccl.trail"))
    places = {text_of(event, "at_file").rpartition("/")[2] for event in events}
    codes = {code for event in events if (code := number_of(event, "code")) in RESULTS}
    reached = codes and places & {"init.cc", "bootstrap.cc"}
    if not (failed or reached) or said(job, "nccl.warn"):
        return
    error = next((text for event in events if (text := text_of(event, "error"))), "")
    told = error if failed else RESULTS[min(codes)] + (f" ({error})" if error else "")
    in_bootstrap = "bootstrap.cc" in places
    start = f"a communicator could not be started{' (bootstrap)' if in_bootstrap else ''}"
    started = reached or any(text_of(event, "function") for event in failed)
    yield Finding(
        "nccl_init_failed", "critical", 0.6,
        f"{start if started else 'a call into NCCL failed'}: {told}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="The first connections did not come about: interface (NCCL_SOCKET_IFNAME), firewall, a rank that is "
        "missing." if in_bootstrap else "Run with NCCL_DEBUG=WARN: the first warning says why.",
    )  # fmt: skip


def call_failed(job: Job) -> Iterator[Finding]:
    """rank_crashed by XLA's word that another call into NCCL failed, where nothing else tells of a failure.

    Needs a log that is over; that a peer went away, or that a communicator was aborted, is no failure of its own.
    """
    events = [
        event
        for event in said(job, "nccl.failed")
        if not _starts(event) and not _OF_OTHERS.search(text_of(event, "error"))
    ]
    if not events or job.live or failures(job) or said(job, "nccl.warn"):
        return
    what = f"{text_of(events[0], 'function')} failed: {text_of(events[0], 'error')}"
    yield Finding(
        "rank_crashed", "critical", 0.55, f"{who(ranks_in(events))} failed in NCCL: {what}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="Run with NCCL_DEBUG=WARN: the first warning says why.",
    )  # fmt: skip


def _starts(event: LogEvent) -> bool:
    """Whether a call that failed was one that starts a communicator, or nobody knows which, and failed by itself."""
    function = text_of(event, "function")
    return (not function or function.startswith("ncclCommInit")) and "remote" not in text_of(event, "error")
