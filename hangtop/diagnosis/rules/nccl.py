"""Connections of NCCL and gloo that failed, and NCCL that runs over plain sockets beside a fast fabric."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import lost_connections
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Port
from hangtop.diagnosis.phrasing import duration, listed, of_several, ranks_text, who
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
    used: dict[str, list[LogEvent]] = {}
    for event in said(job, "nccl.network"):
        used.setdefault(text_of(event, "network").lower(), []).append(event)
    sockets = [event for network, events in used.items() if network.startswith("socket") for event in events]
    homes = home_of(job)
    fast = {name for name, node in job.nodes.items() if any(map(_is_fast, node.ports))}
    with_ports = [event for event in sockets if event.rank is not None and homes.get(event.rank, event.host) in fast]
    mixed = len(used) > 1
    events = with_ports or (sockets if mixed else [])
    if events:
        better = listed(sorted(name for name in used if not name.startswith("socket")))
        why = f"while other ranks use {better}" if mixed else "though its nodes have active InfiniBand or RoCE ports"
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


def gloo_timed_out(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by gloo: a rank's word that nothing came from a peer, which gloo does not name.

    By elimination: ranks that say nothing, while the others waited or lost their connections, had not come.
    """
    events = said(job, "gloo.timeout")
    if not events:
        return
    own = {rank for kind in ("gloo.timeout", "gloo.closed", "python.exception") for rank in ranks_in(said(job, kind))}
    known = known_ranks(job)
    unheard = tuple(sorted(known - own))
    unheard = unheard if own and len(unheard) * 2 <= len(known) else ()
    waited = next((ms for event in events if (ms := number_of(event, "ms"))), None)
    what = "send" if {text_of(event, "direction") for event in events} == {"send"} else "receive"
    absent = f"{ranks_text(unheard)} {of_several('says', len(unheard))} nothing and had not come"
    yield Finding(
        "watchdog_timeout", "critical", 0.7 if unheard else 0.5,
        f"{who(ranks_in(events))} waited in vain to {what} over gloo"
        f"{f' for {duration(waited / 1000)}' if waited else ''}"
        f": {absent if unheard else 'nothing tells who did not come'}",
        ranks=unheard, nodes=() if unheard else hosts_in(job, events), evidence=lines(events),
        advice="The time-out is a consequence: find what kept the rank that did not come (its last log lines). "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch name it.",
    )  # fmt: skip
