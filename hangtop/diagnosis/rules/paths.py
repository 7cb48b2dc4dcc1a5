"""TCP between the nodes of a job: lost segments, and connections that get nothing through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from hangtop.diagnosis.addresses import nodes_by_name
from hangtop.diagnosis.finding import Evidence, Finding, Observer, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, listed, ranks_text
from hangtop.diagnosis.waits.job_status import JobStatus

TCP_RETRANSMIT_SHARE = 0.03
"""Ours: a host whose CPUs are overloaded sends one segment in a hundred again without losing any."""
TCP_RETRANSMITS_PER_S = 10.0
"""Ours: below that rate the share says nothing."""
TCP_SEGMENTS_PER_S = 100.0
"""Ours: a share of fewer segments is that of keepalives and of our own channels, not of the job's traffic."""
FRESH_S = 15.0
"""Seconds for which a sample of a rank's connections counts."""
TOLD = 4
"""Pairs of nodes, and ranks of each, that are written down as proof."""


def tcp_retransmits(job: Job) -> Iterator[Finding]:
    """tcp_retransmits: the share of TCP segments that a node has to send again is over the threshold.

    A node with more to do than it has CPUs for answers late, and what nobody lost is sent again.
    """
    for name, node in sorted(job.nodes.items()):
        sent, again = node.network.segments_per_s or 0.0, node.network.retransmitted_per_s or 0.0
        load = node.load.load / node.host.cpus if node.load and node.host and node.host.cpus else 0.0
        if sent < TCP_SEGMENTS_PER_S or again < TCP_RETRANSMITS_PER_S:
            continue
        if again / sent >= TCP_RETRANSMIT_SHARE * max(1.0, load):
            text = f"{again / sent:.1%} of {sent:.0f} segments per second"
            yield Finding(
                "tcp_retransmits", "warning", 0.8, f"{name} sends {text} again: packets get lost on their way from it",
                nodes=(name,), evidence=(Evidence(Observer.NETWORK, f"/proc/net/snmp on {name}", job.now, text),),
                advice="Look for drops at its interface and switch port; probe the path from this node to the others.",
            )  # fmt: skip


def path_blocked(job_status: JobStatus) -> Iterator[Finding]:
    """path_blocked: the job stands still, and the kernels of its nodes send to one another again and again in vain.

    Of a rank that is stopped the kernel still acknowledges. One connection alone counts after the alarm: where packets
    get lost, four losses running are no cut.
    """
    job = job_status.job
    late = (job.stood_still or 0.0) >= job_status.alarm_after
    if not job.live or not (job_status.hung or late):
        return
    silent = _unanswered(job)
    ways = sum(len(ends) for own in silent.values() for ends in own.values())
    if not ways or (ways == 1 and not late):
        return
    every = {name for pair in silent for name in pair}
    common = [name for name in every if all(name in pair for pair in silent)]
    nodes = tuple(common) if len(common) == 1 and len(every) > 2 else tuple(sorted(every))
    ranks = {rank for own in silent.values() for rank in own}
    where = f"to and from {nodes[0]}" if len(nodes) == 1 else f"between {nodes_text(nodes)}"
    yield Finding(
        "path_blocked", "critical", 0.85,
        f"{where} nothing is acknowledged of what is sent on {count(ways, 'connection')} ({ranks_text(ranks)})",
        nodes=nodes,
        evidence=tuple(
            Evidence(
                Observer.NETWORK, f"sock_diag on {sender}", job.now,
                f"to {receiver}, repeated: "
                + "; ".join(f"{ranks_text((rank,))} to {listed(ends)}" for rank, ends in sorted(own.items())[:TOLD]),
            )
            for (sender, receiver), own in sorted(silent.items())[:TOLD]
        ),
        advice="Look at the link, the firewall and the MTU between these nodes: small packets may pass where full ones "
        "do not.",
        next=(next_step("P", "probe", "path", *sorted(every)),),
    )  # fmt: skip


def _unanswered(job: Job) -> Mapping[tuple[str, str], Mapping[int, list[str]]]:
    """(sender, receiver) → rank of the sender → far ends that acknowledge nothing."""
    ranks = {(one.node, one.process.pid): one.rank for one in job.ranks if one.gone_at is None}
    newest = {
        (node, dump.pid): dump for node, dump in zip(job.stack_nodes, job.stacks, strict=False)
        if dump.pid == dump.rank_pid and dump.at >= job.now - FRESH_S and (node, dump.pid) in ranks
    }  # fmt: skip
    found: dict[tuple[str, str], dict[int, list[str]]] = defaultdict(dict)
    if not any(dump.unanswered for dump in newest.values()):
        return found
    at = nodes_by_name(job, ((node, dump) for (node, _), dump in newest.items()))
    for (node, pid), dump in newest.items():
        for end in dump.unanswered:
            far = at.get(end.rpartition(":")[0].strip("[]"), "")
            if far and far != node:
                found[node, far].setdefault(ranks[node, pid], []).append(end)
    return found
