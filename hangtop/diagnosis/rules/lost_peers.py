"""Ranks that lost a peer: victims, and what they tell of who ended first."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import known_ranks
from hangtop.diagnosis.witnesses.event_fields import text_of, words_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said, warned


def lost_connections(job: Job) -> tuple[LogEvent, ...]:
    """Words of ranks that lost a peer: they are victims."""
    told = (
        *warned(job, "connection_closed", "ib_flush", "proxy"),
        *(event for event in said(job, "torch.watchdog_error") if event.data.get("consequence") is True),
        *(event for event in said(job, "nccl_tests.failed") if event.data.get("consequence") is True),
        *said(job, "gloo.closed"),
        *said(job, "jax.victim"),
    )
    lines_told = {(event.source, event.line, event.rank) for event in told}
    raised = [
        event
        for event in said(job, "python.exception", "connection")
        if event.data.get("survived") is not True and not _to_a_child(event)
    ]
    return (*told, *(event for event in raised if (event.source, event.line, event.rank) not in lines_told))


def _to_a_child(event: LogEvent) -> bool:
    """Whether the connection is one of multiprocessing's, to a process that this one started: a loader's, as a rule."""
    return any("/multiprocessing/" in frame for frame in words_of(event, "frames")[-1:])


def remote_error(job: Job) -> Iterator[Finding]:
    """nccl_remote_error: "remote process exited", connections closed by the peer. A consequence: the peer failed first.

    Needs NCCL's warnings, torch's watchdog, gloo's errors or a test of nccl-tests.
    """
    events = lost_connections(job)
    if not events:
        return
    ranks, nodes = ranks_in(events), hosts_in(job, events)
    known = known_ranks(job)
    silent = sorted(known - {event.rank for event in job.events if event.kind != "log.end"})
    wordless = f"; of {ranks_text(silent)} there is no word" if ranks and 0 < len(silent) * 2 <= len(known) else ""
    peers = sorted({text_of(event, "peer") for event in events} - {""})
    yield Finding(
        "nccl_remote_error", "critical", 0.5,
        f"{who(ranks, f'ranks on {listed(nodes)}' if nodes else 'ranks')} lost {listed(peers, 2) or 'a peer'}, "
        f"which ended first{wordless}",
        nodes=nodes, evidence=lines(events),
        advice="These ranks are victims: look for the rank that they name, and for the one that left no word.",
    )  # fmt: skip
