"""Log events, selected by content and origin and turned into evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.roster import home_of

LINES_SHOWN = 4
BEFORE_START_S = 60.0
"""Seconds before the job's first process within which a line may still explain why the job was (re)started."""


def log_events(job: Job, kind: str, *signatures: str) -> tuple[LogEvent, ...]:
    """Events of one kind, with any of these signatures if some are given; of living ranks only this run's.

    Leaves out the lines of other runs' processes on a node, and lines without a rank from long before the job's ranks.
    """
    events = job.events_of(kind)
    runs = {rank.rank: rank.process for rank in job.ranks} if events and job.live else {}
    began = min((process.started for process in runs.values()), default=-inf) - BEFORE_START_S
    alien = {(other.node, other.process.pid) for other in job.others}

    def of_this_run(event: LogEvent) -> bool:
        process = runs.get(event.rank) if event.rank is not None else None
        at = when(event) if process is None or process.restart else event.at
        return at is None or at >= (began if process is None else process.started)

    return tuple(
        event
        for node, event in events
        if (not signatures or text_of(event, "signature") in signatures)
        and (node, event.pid) not in alien
        and of_this_run(event)
    )


def ranks_in(events: Iterable[LogEvent]) -> tuple[int, ...]:
    """Ranks that logged these events."""
    return tuple(sorted({event.rank for event in events if event.rank is not None}))


def hosts_in(job: Job, events: Iterable[LogEvent]) -> tuple[str, ...]:
    """Nodes of these events: the rank's own node, else the host in the line."""
    homes = home_of(job)
    named = {(homes.get(event.rank, "") if event.rank is not None else "") or event.host for event in events}
    return tuple(sorted(named - {""}))


def lines(events: Sequence[LogEvent]) -> tuple[Evidence, ...]:
    """The first few events as evidence."""
    return tuple(map(event_line, events[:LINES_SHOWN]))


EVIDENCE_CHARS = 400


def events_on(job: Job, node: Node, kind: str) -> Iterator[LogEvent]:
    """Kernel events of one kind from one node; live, without those from long before the job's processes."""
    started = min((rank.process.started for rank in job.ranks_of(node.name)), default=0.0)
    names = {node.name, node.hello.hostname if node.hello else ""}
    for home, event in job.events_of(kind):
        # from the node itself, or from a file whose lines name it
        if home == node.name or (not home and event.host in names):
            at = when(event)
            if not job.live or at is None or at >= started - BEFORE_START_S:
                yield event


def event_line(event: LogEvent) -> Evidence:
    """An event as evidence: file and line, time, verbatim text."""
    source = f"{event.source}:{event.line}" if event.line else event.source
    text = event.text
    if len(text) > EVIDENCE_CHARS:  # the end of a traceback matters most
        text = f"{text[: EVIDENCE_CHARS // 4]} … {text[-3 * EVIDENCE_CHARS // 4 :]}"
    return Evidence(Observer.LOG, source, when(event), text, event.source)


def finished(job: Job) -> bool:
    """Whether the run completed.

    The launcher or the script reports it, or all ranks destroyed the largest communicator.
    """
    if job.events_of("elastic.finished") or job.events_of("job.finished"):
        return True
    ends = [event for _, event in job.events_of("nccl.end") if text_of(event, "phase").lower() == "destroy"]
    made = [event for _, event in job.events_of("nccl.init")]
    sizes = {text_of(event, "comm_id"): number_of(event, "size") or 0 for event in (*made, *ends)}
    largest = max(sizes.values(), default=0)
    left = {(text_of(event, "comm_id"), number_of(event, "group_rank")) for event in ends}
    counts = Counter(comm for comm, rank in left if comm and rank is not None)
    return largest > 1 and any(sizes[comm] == largest == count for comm, count in counts.items())
