"""NCCL's and gloo's lines whose ranks and peers are told by comparing several of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.vote import vote
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said, warned
from hangtop.diagnosis.failures.first import lost_connections
from hangtop.diagnosis.failures.unheard import nodes_at
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Port
from hangtop.diagnosis.phrasing import duration, listed, of_several, ranks_text, who
from hangtop.diagnosis.roster import home_of, known_ranks
from hangtop.diagnosis.rules import ports

UNCOUNTED = 3
"""Lines about retries that old versions do not count: fewer are a peer that starts late."""
MANY_RETRIES = 8
"""Retries of one connection of which a peer that only starts late needs fewer: about four seconds."""
FAST_GBPS = 40
_OPERATION = re.compile(r"torch/distributed/distributed_c10d\.py:\d+ in (?!wrapper\b|_)(\w+)")


def connect_failed(job: Job) -> Iterator[Finding]:
    """nccl_connect_failed: a rank could not connect to a peer; many ranks and one peer accuse the peer.

    Needs NCCL's warnings, or its INFO lines about retries of which many failed.
    """
    events = warned(job, "connect_failed") or retried(job)
    if not events:
        return
    peers = sorted({text_of(event, "peer") for event in events} - {""})
    yield Finding(
        "nccl_connect_failed", "critical", 0.8,
        f"{who(ranks_in(events), 'ranks')} cannot connect to {listed(peers) or 'a peer'}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="Wrong interface (NCCL_SOCKET_IFNAME), a firewall between the nodes, or the peer was not up: probe the "
        "path to it.",
    )  # fmt: skip


def retried(job: Job) -> tuple[LogEvent, ...]:
    """Lines about connections that were tried again and again, and to no avail."""
    events = said(job, "nccl.connect_retry")
    counted = tuple(event for event in events if (number_of(event, "tried") or 0) >= MANY_RETRIES)
    bare = tuple(event for event in events if number_of(event, "tried") is None)
    came_up = any(text_of(event, "phase") == "complete" for event in said(job, "nccl.init"))
    return counted or (bare if len(bare) >= UNCOUNTED and not came_up and not job.live else ())


def ib_retry_exceeded(job: Job) -> Iterator[Finding]:
    """ib_retry_exceeded: completion status 12, the other side of an InfiniBand connection stopped answering.

    Needs NCCL's warnings. A peer that several ranks name is the one; where a port of its node is down or in trouble,
    that is the cause.
    """
    events = warned(job, "ib_retry_exceeded")
    if not events:
        return
    peers = [text_of(event, "peer") for event in events if text_of(event, "peer")]
    named = sorted(set(peers), key=lambda peer: (-peers.count(peer), peer))
    one = f"; all name {named[0]}" if len(named) == 1 and len(events) > 1 else ""
    devices = sorted({text_of(event, "device") for event in events} - {""})
    nodes = nodes_at(job, named)
    wrong = (*ports.port_down(job), *ports.port_errors(job)) if nodes else ()
    yield Finding(
        "ib_retry_exceeded", "critical", 0.88,
        f"{who(ranks_in(events))} got no answer over InfiniBand from {listed(named) or 'a peer'}{one}"
        f"{f' (device {listed(devices)})' if devices else ''}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        cause=next((finding.kind for finding in wrong if nodes & set(finding.nodes)), ""),
        advice="A port, cable, switch or host on the way is dead or lossy: look at link_downed and symbol_error of "
        "both ports. A longer NCCL_IB_TIMEOUT only hides it.",
    )  # fmt: skip


def socket_fallback(job: Job) -> Iterator[Finding]:
    """network_socket_fallback: NCCL uses plain sockets on nodes that have active InfiniBand or RoCE ports.

    Needs NCCL's INFO lines and the node's ports, or NCCL's word that it found no device on some ranks while others did.
    """
    used: dict[str, list[LogEvent]] = {}
    for event in said(job, "nccl.network"):
        used.setdefault(text_of(event, "network").lower(), []).append(event)
    sockets = [event for network, events in used.items() if network.startswith("socket") for event in events]
    homes = home_of(job)
    fast = {name for name, node in job.nodes.items() if any(map(_fast, node.ports))}
    with_ports = [event for event in sockets if event.rank is not None and homes.get(event.rank, event.host) in fast]
    mixed = len(used) > 1
    if not with_ports and not (sockets and mixed):
        return
    events = with_ports or sockets
    better = listed(sorted(name for name in used if not name.startswith("socket")))
    why = f"while other ranks use {better}" if mixed else "though its nodes have active InfiniBand or RoCE ports"
    yield Finding(
        "network_socket_fallback", "warning", 0.85 if with_ports else 0.75,
        f"NCCL uses plain sockets on {who(ranks_in(events), 'some ranks')}, {why}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="Look for NCCL_IB_DISABLE, for a missing plugin or libibverbs in the container, and at NCCL_IB_HCA.",
    )  # fmt: skip


def _fast(port: Port) -> bool:
    return port.facts.state == "ACTIVE" and (port.facts.rate is None or port.facts.rate >= FAST_GBPS)


def remote_error(job: Job) -> Iterator[Finding]:
    """nccl_remote_error: "remote process exited", connections closed by the peer. A consequence: the peer failed first.

    Needs NCCL's warnings, torch's watchdog, gloo's errors or a test of nccl-tests. By elimination: where fewer than
    half of the ranks left no word, they are the peer.
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

    Needs gloo's error. By elimination: ranks that say nothing of their own, while the others waited or lost their
    connections, had not come.
    """
    events = said(job, "gloo.timeout")
    if not events:
        return
    own = {*ranks_in(events), *ranks_in(said(job, "gloo.closed")), *ranks_in(said(job, "python.exception"))}
    known = known_ranks(job)
    unheard = tuple(sorted(known - own))
    unheard = unheard if own and len(unheard) * 2 <= len(known) else ()
    waited = next((ms for event in events if (ms := number_of(event, "ms"))), None)
    what = "send" if {text_of(event, "direction") for event in events} == {"send"} else "receive"
    long = f" for {duration(waited / 1000)}" if waited else ""
    absent = f"{ranks_text(unheard)} {of_several('says', len(unheard))} nothing and had not come"
    yield Finding(
        "watchdog_timeout", "critical", 0.7 if unheard else 0.5,
        f"{who(ranks_in(events))} waited in vain to {what} over gloo{long}"
        f": {absent if unheard else 'nothing tells who did not come'}",
        ranks=unheard, nodes=hosts_in(job, events) if not unheard else (), evidence=lines(events),
        advice="The time-out is a consequence: find what kept the rank that did not come (its last log lines). "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch name it.",
    )  # fmt: skip


def differing_calls(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the tracebacks of a time-out: ranks were in different operations of torch.distributed.

    Needs the traceback of a collective's time-out from two ranks or more; where no operation has a majority, no rank is
    accused alone.
    """
    told = [event for event in said(job, "python.exception", "collective_timeout", "connection") if _call(event)]
    counted = vote({event.rank: _call(event) for event in told if event.rank is not None})
    timed_out = any(text_of(event, "signature") == "collective_timeout" for event in told)
    if not timed_out or counted is None or not counted.odd:
        return
    odd = listed([f"rank {rank} in {call}" for rank, call in sorted(counted.odd.items())])
    proof = sorted(told, key=lambda event: event.rank not in counted.odd)
    yield Finding(
        "collective_mismatch", "critical", 0.6 if counted.tied else 0.85,
        f"ranks timed out in different operations: {odd}, {ranks_text(counted.usual_ranks)} in {counted.usual}",
        ranks=counted.odd_ranks, nodes=hosts_in(job, proof), evidence=lines(proof),
        advice="Look for a collective behind `if rank == …`, or for branches that depend on the data.",
    )  # fmt: skip


def _call(event: LogEvent) -> str:
    """The operation of torch.distributed that a traceback is in; empty where it is in none."""
    calls = [found.group(1) for frame in words_of(event, "frames") if (found := _OPERATION.search(frame))]
    return calls[-1] if calls else ""
