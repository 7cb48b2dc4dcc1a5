"""Log events picked by what they say, and put as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Evidence
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import home_of
from hangtop.diagnosis.witnesses.devices import event_line
from hangtop.diagnosis.witnesses.event_fields import text_of, when

LINES_SHOWN = 4


def said(job: Job, kind: str, *signatures: str) -> tuple[LogEvent, ...]:
    """Events of one kind, of any of these signatures where some are given; of living ranks only this run's.

    What other runs' processes on a node say is left out.
    """
    events = job.events_of(kind)
    started = {rank.rank: rank.process.started for rank in job.ranks} if events else {}
    again = {rank.rank for rank in job.ranks if rank.process.restart} if events else set()
    alien = {(other.node, other.process.pid) for other in job.others} if events else set()
    return tuple(
        event
        for node, event in events
        if (not signatures or text_of(event, "signature") in signatures)
        and (node, event.pid) not in alien
        and not (
            job.live
            and event.rank is not None
            and (at := when(event) if event.rank in again else event.at) is not None
            and at < started.get(event.rank, float("-inf"))
        )
    )


def warned(job: Job, *signatures: str) -> tuple[LogEvent, ...]:
    """Warnings of NCCL with any of these signatures."""
    return said(job, "nccl.warn", *signatures)


def ranks_in(events: Iterable[LogEvent]) -> tuple[int, ...]:
    """Ranks that said so."""
    return tuple(sorted({event.rank for event in events if event.rank is not None}))


def hosts_in(job: Job, events: Iterable[LogEvent]) -> tuple[str, ...]:
    """Nodes where it was said: by the rank's own node, else by the host in the line."""
    homes = home_of(job)
    named = {(homes.get(event.rank, "") if event.rank is not None else "") or event.host for event in events}
    return tuple(sorted(named - {""}))


def lines(events: Sequence[LogEvent]) -> tuple[Evidence, ...]:
    """Put the first few as evidence."""
    return tuple(event_line(event) for event in events[:LINES_SHOWN])
