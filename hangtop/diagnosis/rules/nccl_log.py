"""What NCCL's own warnings prove: GPUs given twice, interfaces that are not there, peers out of reach, dead links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding, Severity
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import home_of
from hangtop.diagnosis.rules import fabric
from hangtop.diagnosis.witnesses.by_report import whose
from hangtop.diagnosis.witnesses.eliminated import nodes_of
from hangtop.diagnosis.witnesses.event_fields import number_of, numbers_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said, warned


class Warned(NamedTuple):
    """A signature of NCCL's warnings that is a finding by itself."""

    signatures: tuple[str, ...]
    kind: str
    severity: Severity
    weight: float
    summary: str
    advice: str


TABLE = (
    Warned(
        ("no_interface",), "nccl_no_interface", "critical", 0.93,
        "NCCL finds no network interface that fits NCCL_SOCKET_IFNAME",
        "Set NCCL_SOCKET_IFNAME to an interface that every node has (ip -br link), or remove it.",
    ),
    Warned(
        ("version_mismatch",), "nccl_version_mismatch", "critical", 0.95,
        "ranks run different versions of NCCL",
        "Give every node the same image, or the same wheel of torch.",
    ),
    Warned(
        ("ib_memory",), "memlock_limit", "critical", 0.85,
        "the InfiniBand driver could not pin memory",
        "Raise the memlock limit to unlimited (limits.conf, LimitMEMLOCK of the service, --ulimit memlock=-1).",
    ),
    Warned(
        ("duplicate_rank",), "nccl_init_failed", "critical", 0.9,
        "two processes came to NCCL with the same rank, or they disagree on how many there are",
        "Every process needs its own RANK and all the same WORLD_SIZE: was the job started twice, or once per node "
        "with the same NODE_RANK or Slurm settings?",
    ),
    Warned(
        ("size_mismatch",), "collective_size_mismatch", "critical", 0.85,
        "ranks joined one collective with different sizes",
        "Compare tensor sizes over the ranks, and settings that must agree (NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE).",
    ),
    Warned(
        ("open_files",), "open_files_limit", "critical", 0.9,
        "file descriptors ran out",
        "Raise the limit of open files (ulimit -n 1048576).",
    ),
    Warned(
        ("ib_queue_pair",), "nccl_init_failed", "critical", 0.8,
        "InfiniBand queue pairs cannot be connected: GID index or RoCE routing",
        "Leave NCCL_IB_GID_INDEX unset from NCCL 2.21 on; check that the nodes' RoCE networks route to each other.",
    ),
    Warned(
        ("nvls",), "nccl_init_failed", "critical", 0.75,
        "NVLink SHARP could not be set up",
        "Check the fabric manager and IMEX on these nodes; NCCL_NVLS_ENABLE=0 works around it.",
    ),
    Warned(
        ("cuda_ipc",), "nccl_init_failed", "critical", 0.85,
        "a GPU cannot open another one's memory (CUDA IPC)",
        "The GPUs do not support peer access, or CUDA_VISIBLE_DEVICES and containers hide them from each other. "
        "NCCL_P2P_DISABLE=1 works around it.",
    ),
    Warned(
        ("ib_queue_error", "ib_completion"), "nccl_init_failed", "critical", 0.6,
        "an InfiniBand operation was refused",
        "The status says why: access or protection errors come from memory registration, drivers or firmware that do "
        "not fit, or a peer that freed its memory; they are no fault of cable or port.",
    ),
    Warned(
        ("ib_port_error",), "ib_link_flapped", "warning", 0.85,
        "an InfiniBand port of this host reported an error",
        "Check cable and transceiver of that port.",
    ),
    Warned(
        ("truncated",), "collective_size_mismatch", "critical", 0.75,
        "a rank received a message of another size than it expected",
        "Compare tensor sizes over the ranks, and settings that must agree (NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE).",
    ),
)  # fmt: skip
"""Signatures are those of ``docs/log-events.md``."""
UNCOUNTED = 3
"""Lines about retries that old versions do not count: fewer are a peer that starts late."""
MANY_RETRIES = 8
"""Retries of one connection of which a peer that only starts late needs fewer: about four seconds."""


def warnings(job: Job) -> Iterator[Finding]:
    """Every kind of the table above: nccl_no_interface, nccl_version_mismatch, memlock_limit and others.

    Needs NCCL's warnings (NCCL_DEBUG=WARN or more).
    """
    for row in TABLE:
        events = warned(job, *row.signatures)
        if row.kind == "open_files_limit":
            events += said(job, "host.open_files")
        if events:
            alone = row.kind == "open_files_limit"
            ranks, nodes = whose(job, events) if alone else (ranks_in(events), hosts_in(job, events))
            yield Finding(
                row.kind, row.severity, row.weight,
                f"{row.summary}{f' ({ranks_text(ranks)})' if ranks else ''}{_detail(events)}",
                ranks=ranks, nodes=nodes, evidence=lines(events), advice=row.advice,
            )  # fmt: skip


def mismatched(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the check of NCCL before 2.7, which names a rank near the one that differs.

    Needs NCCL's warning.
    """
    events = warned(job, "collective_mismatch")
    if events:
        around = sorted({number for event in events for number in numbers_of(event, "group_ranks")})
        near = f" at or near {ranks_text(around)}" if around else ""
        yield Finding(
            "collective_mismatch", "critical", 0.8, f"NCCL found ranks in different collectives{near}",
            ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
            advice="Look for a collective behind `if rank == …`, or ranks with a different number of batches.",
        )  # fmt: skip


def failing_warnings(job: Job) -> tuple[LogEvent, ...]:
    """Warnings after which NCCL's call fails on the rank that gives them."""
    return warned(
        job, "connect_failed", *(name for row in TABLE if row.severity == "critical" for name in row.signatures)
    )


def plugin_failed(job: Job) -> Iterator[Finding]:
    """nccl_init_failed by the network plugin (libfabric): endpoints that cannot be made, requests that end in an error.

    Needs NCCL's warnings. What it says about its start is left out where communicators came up afterwards: then NCCL
    went on with another network.
    """
    came_up = any(text_of(event, "phase") == "complete" for event in said(job, "nccl.init"))
    events = tuple(
        event
        for event in warned(job, "net_failed")
        if not came_up or text_of(event, "error").startswith("completed with error")
    )
    if events:
        ranks = ranks_in(events)
        yield Finding(
            "nccl_init_failed", "critical", 0.6,
            f"NCCL's network plugin fails on {who(ranks, 'some ranks')}{_detail(events)}",
            ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events),
            advice="With EFA: do the security groups let the nodes reach each other in both directions, and do plugin, "
            "libfabric and driver fit together (fi_info -p efa on every node)?",
        )  # fmt: skip


def connect_failed(job: Job) -> Iterator[Finding]:
    """nccl_connect_failed: a rank could not connect to a peer; many ranks and one peer accuse the peer.

    Needs NCCL's warnings, or its INFO lines about retries of which many failed.
    """
    events = warned(job, "connect_failed") or retried(job)
    if not events:
        return
    peers = sorted({text_of(event, "peer") for event in events} - {""})
    ranks = ranks_in(events)
    yield Finding(
        "nccl_connect_failed", "critical", 0.8,
        f"{who(ranks, 'ranks')} cannot connect to {listed(peers) or 'a peer'}{_detail(events)}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events),
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

    Needs NCCL's warnings. Flushes (status 5) that follow are consequences. A peer that several ranks name is the one.
    """
    events = warned(job, "ib_retry_exceeded")
    if not events:
        return
    peers = [text_of(event, "peer") for event in events if text_of(event, "peer")]
    named = sorted(set(peers), key=lambda peer: (-peers.count(peer), peer))
    one = f"; all name {named[0]}" if len(named) == 1 and len(events) > 1 else ""
    ranks = ranks_in(events)
    device = sorted({text_of(event, "device") for event in events} - {""})
    yield Finding(
        "ib_retry_exceeded", "critical", 0.88,
        f"{who(ranks)} got no answer over InfiniBand from {listed(named) or 'a peer'}{one}"
        f"{f' (device {listed(device)})' if device else ''}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events), cause=_of_peers(job, named),
        advice="A port, cable, switch or host on the way is dead or lossy: look at link_downed and symbol_error of "
        "both ports. A longer NCCL_IB_TIMEOUT only hides it.",
    )  # fmt: skip


def _of_peers(job: Job, peers: Sequence[str]) -> str:
    """The kind of what is wrong with a port of a node that a retry names; empty where its ports are in order."""
    nodes = nodes_of(job, peers)
    ports = (*fabric.port_down(job), *fabric.port_errors(job)) if nodes else ()
    return next((finding.kind for finding in ports if nodes & set(finding.nodes)), "")


def socket_fallback(job: Job) -> Iterator[Finding]:
    """network_socket_fallback: NCCL uses plain sockets on nodes that have active InfiniBand or RoCE ports.

    Needs NCCL's INFO lines and the node's ports, or NCCL's word that it found no device on some ranks while others did.
    """
    used: dict[str, list[LogEvent]] = {}
    for event in said(job, "nccl.network"):
        used.setdefault(text_of(event, "network").lower(), []).append(event)
    sockets = [event for network, events in used.items() if network.startswith("socket") for event in events]
    if not sockets:
        return
    homes = home_of(job)
    fast = {name for name, node in job.nodes.items() if any(_fast(p.facts.state, p.facts.rate) for p in node.ports)}
    with_ports = [event for event in sockets if event.rank is not None and homes.get(event.rank, event.host) in fast]
    mixed = len(used) > 1
    if not with_ports and not mixed:
        return
    events = with_ports or sockets
    better = listed(sorted(name for name in used if not name.startswith("socket")))
    why = f"while other ranks use {better}" if mixed else "though its nodes have active InfiniBand or RoCE ports"
    yield Finding(
        "network_socket_fallback", "warning", 0.85 if with_ports else 0.75,
        f"NCCL uses plain sockets on {ranks_text(ranks_in(events)) if ranks_in(events) else 'some ranks'}, {why}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=lines(events),
        advice="Look for NCCL_IB_DISABLE, for a missing plugin or libibverbs in the container, and at NCCL_IB_HCA.",
    )  # fmt: skip


def _fast(state: str, rate: float | None) -> bool:
    return state == "ACTIVE" and (rate is None or rate >= 40)


def _detail(events: Sequence[LogEvent]) -> str:
    first = events[0]
    sizes = number_of(first, "bytes"), number_of(first, "expected")
    if None not in sizes:
        return f": {sizes[0]} bytes from {text_of(first, 'peer') or 'a peer'}, {sizes[1]} expected"
    for name in ("interface", "device", "error", "status_name"):
        value = text_of(first, name)
        if value:
            return f": {value}"
    return ""
