"""NCCL's connections that failed, processes that RAS cannot find, and plain sockets beside a fast fabric."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.counts import communicators, last_answers
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import finished, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import lost_connections
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job, Port
from hangtop.diagnosis.phrasing import count, listed, ranks_text, who
from hangtop.diagnosis.roster import home_of, homes, known_ranks
from hangtop.diagnosis.waits.job_status import JobStatus

MANY_RETRIES = 8
"""Retries of one connection of which a peer that only starts late needs fewer: about four seconds."""
FAST_GBPS = 40
AWAY = ("missing", "unresponsive", "dead")
GONE = "The process ended, is stopped, or its node is cut off: look at it first."


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
    """nccl_remote_error: connections closed by the peer. A consequence: the peer failed first.

    By elimination: where fewer than half of the ranks left no word, they are the peer.
    """
    events = lost_connections(job)
    if not events:
        return
    ranks, nodes, known = ranks_in(events), hosts_in(job, events), known_ranks(job)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    silent = tuple(sorted(known - {event.rank for event in job.events if event.kind != "log.end"} - living))
    silent = silent if ranks and len(silent) * 2 <= len(known) else ()
    wordless = f"; of {ranks_text(silent)} there is no word" if silent else ""
    peers = sorted({text_of(event, "peer") for event in events} - {""})
    yield Finding(
        "nccl_remote_error", "critical", 0.5,
        f"{who(ranks, f'ranks on {listed(nodes)}' if nodes else 'ranks')} lost {listed(peers, 2) or 'a peer'}, "
        f"which ended first{wordless}",
        ranks=silent if len(silent) == 1 or len(silent) * 2 < len(known) else (), nodes=nodes, evidence=lines(events),
        advice="These ranks are victims: look for the rank that they name, and for the one that left no word.",
    )  # fmt: skip


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers, two or more, could not find."""
    job, last = job_status.job, last_answers(job_status.job)
    if len(last) < (2 if job.live or finished(job) else 1):
        return
    resolver, surely = job.once(CommRankResolver), len(last) > 1 or bool(last[-1].value.dead)
    for comm, states in sorted(communicators(last).items()):
        lost = [{one.rank for one in state.ranks if one.state in AWAY} for state in states]
        steady = set.intersection(*lost) if len(states) == len(last) else set()
        members = [one for one in states[-1].ranks if one.rank in steady]
        if not members or not resolver.is_ours(members):
            continue
        ranks = tuple(sorted({rank for one in members if (rank := resolver.of(one.host, one.pid)) is not None}))
        told = listed([f"rank {one.rank} of it ({one.host}, pid {one.pid}) {one.state}" for one in members])
        yield Finding(
            "rank_missing", "critical", 0.8 if surely else 0.5,
            f"NCCL does not find {who(ranks, count(len(members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(Observer.RAS, f"NCCL RAS, communicator {comm}", last[-1].at, told),), advice=GONE,
        )  # fmt: skip
