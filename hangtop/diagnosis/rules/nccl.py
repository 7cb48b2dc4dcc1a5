"""NCCL's connections that failed, processes that RAS cannot find, and plain sockets beside a fast fabric."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import lost_connections
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Port
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import home_of, known_ranks

MANY_RETRIES = 8
"""Retries of one connection of which a peer that only starts late needs fewer: about four seconds."""
FAST_GBPS = 40


def retried(job: Job) -> tuple[LogEvent, ...]:
    """Lines about connections that were tried again and again, and to no avail."""
    return tuple(event for event in said(job, "nccl.connect_retry") if (number_of(event, "tried") or 0) >= MANY_RETRIES)


def socket_fallback(job: Job) -> Iterator[Finding]:
    """network_socket_fallback: NCCL uses plain sockets though its nodes have active InfiniBand or RoCE ports.

    Without the ports: on some ranks NCCL says that it uses sockets, on others a faster network.
    """
    told = said(job, "nccl.network")
    sockets = [event for event in told if text_of(event, "network").lower().startswith("socket")]
    at = home_of(job)
    fast = {name for name, node in job.nodes.items() if any(map(_is_fast, node.ports))}
    with_ports = [event for event in sockets if event.rank is not None and at.get(event.rank, event.host) in fast]
    mixed = len(sockets) < len(told)
    events = with_ports or (sockets if mixed else [])
    if events:
        why = "while other ranks use a faster network" if mixed else "though there are active InfiniBand or RoCE ports"
        yield Finding(
            "network_socket_fallback", "warning", 0.85 if with_ports else 0.75,
            f"NCCL uses plain sockets on {who(ranks_in(events), 'some ranks')}, {why}",
            ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
            advice="Look for NCCL_IB_DISABLE, for a missing plugin or libibverbs in the container, and at NCCL_IB_HCA.",
        )  # fmt: skip


def _is_fast(port: Port) -> bool:
    return port.facts.state == "ACTIVE" and (port.facts.rate is None or port.facts.rate >= FAST_GBPS)


def remote_error(job: Job) -> Iterator[Finding]:
    """nccl_remote_error: connections closed by the peer. A consequence: the peer failed first."""
    events = lost_connections(job)
    if events:
        ranks, nodes = ranks_in(events), hosts_in(job, events)
        peers = sorted({text_of(event, "peer") for event in events} - {""})
        living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
        silent = known_ranks(job) - {event.rank for event in job.events if event.kind != "log.end"} - living
        wordless = f"; of {ranks_text(silent)} there is no word" if ranks and silent else ""
        yield Finding(
            "nccl_remote_error", "critical", 0.5,
            f"{who(ranks, f'ranks on {listed(nodes)}' if nodes else 'ranks')} lost {listed(peers, 2) or 'a peer'}, "
            f"which ended first{wordless}",
            nodes=nodes, evidence=lines(events),
            advice="These ranks are victims: look for the rank that they name, and for the one that left no word.",
        )  # fmt: skip
