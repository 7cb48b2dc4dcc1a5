"""The interpreter itself is held: one thread keeps the GIL and does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, ranks_on, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS
from hangtop.diagnosis.waits.evidence import evidence_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus

TIME_OUTS = ("torch.watchdog_timeout", "torch.watchdog_status", "torch.dump_signal")
"""What watchdogs say once a collective has timed out; a thread that says so is not stuck yet."""
KNOWN = frozenset({"data", "checkpoint", "lock"})
"""What the thread that does the rank's work may be stuck in while it keeps the GIL: opening and writing files in C++
often does not let go."""


def gil_hang(job_status: JobStatus) -> Iterator[Finding]:
    """gil_hang: one thread holds the GIL in every look and the process uses no CPU, or the watchdog says it is stuck.

    Needs dumps that tell the GIL's owner, in two looks or more: Python code that blocks gives the GIL back, so an owner
    that does not run sits in native code. The watchdog's own line (``torch.watchdog_stuck``) proves it without stacks,
    but for one that got stuck after a collective had timed out: what hangs then is the end of a job that had failed.
    """
    stuck = said(job_status.job, "torch.watchdog_stuck")
    named = set(ranks_in(stuck))
    seen = set()
    for status in job_status.of("working"):
        owner = _owner(status)
        if owner is None or _known_wait(status) or not (job_status.hung or status.rank in named):
            continue
        yield Finding(
            "gil_hang", "critical", 0.85,
            f"{ranks_on([status.rank], [status.node])}: thread {owner} keeps the GIL in native code and does "
            "not run, so no Python thread of that rank can",
            ranks=(status.rank,), nodes=homes(job_status.job, (status.rank,)),
            evidence=evidence_of(status),
            advice="A C extension or a CUDA call blocks without giving the GIL back: dump it with native frames.",
        )  # fmt: skip
        seen.add(status.rank)
    yield from _told(job_status.job, [event for event in stuck if event.rank not in seen])


def _told(job: Job, stuck: Sequence[LogEvent]) -> Iterator[Finding]:
    """Watchdogs that say they are stuck: those that stopped after a time-out as what came of it, others together."""
    spoken = [event for kind in TIME_OUTS for event in said(job, kind)]
    after = [event for event in stuck if _after(event, spoken)]
    roots = [event for event in stuck if event not in after]
    if roots:
        yield Finding(
            "gil_hang", "critical", 0.6,
            f"{_whose(roots)} made no progress itself, so the GIL or a CUDA call there is stuck",
            ranks=ranks_in(roots), nodes=hosts_in(job, roots), evidence=lines(roots),
            advice="Dump the stacks there with native frames; look for Xid lines on the nodes.",
        )  # fmt: skip
    if after:
        yield Finding(
            "gil_hang", "warning", 0.6,
            f"{_whose(after)} stopped only after a collective had timed out: what is stuck there is the end of a job "
            "that had failed",
            ranks=ranks_in(after), nodes=hosts_in(job, after), evidence=lines(after),
            advice="Look for what made the collective time out.", cause="watchdog_timeout",
        )  # fmt: skip


def _after(stuck: LogEvent, spoken: Sequence[LogEvent]) -> bool:
    """Some time-out had been told before this watchdog stopped.

    Its own word proves that it still ran then. Those of others need times: it stopped at least the ``seconds`` before
    it says so.
    """
    seconds = number_of(stuck, "seconds") or 0
    for event in spoken:
        own = event.rank is not None and event.rank == stuck.rank and event.kind == "torch.watchdog_timeout"
        if own and event.source == stuck.source:
            if event.line < stuck.line:
                return True
        elif event.at is not None and stuck.at is not None and event.at <= stuck.at - (0 if own else seconds):
            return True
    return False


def _whose(events: Sequence[LogEvent]) -> str:
    ranks = ranks_in(events)
    if len(ranks) > 1:
        return f"NCCL's watchdogs of {count(len(ranks), 'rank')} ({ranks_text(ranks)}): each"
    return f"NCCL's watchdog of {ranks_text(ranks) if ranks else 'a rank'}"


def _known_wait(status: RankStatus) -> bool:
    """The owner is the very thread that is stuck, and what it does is known: that says more than "holds the GIL"."""
    doing = status.activity
    if doing is None or doing.gil is None or doing.gil.role != doing.thread:
        return False
    if doing.thread != "main" and doing.gil.where != doing.where:
        return False
    return doing.kind in KNOWN or bool(doing.context & KNOWN)


def _owner(status: RankStatus) -> str | None:
    owners = {reading.gil.name if reading.gil else "" for reading in status.readings}
    if len(status.readings) < LATE_LOOKS or len(owners) != 1 or not status.blocked:
        return None
    return owners.pop() or None
