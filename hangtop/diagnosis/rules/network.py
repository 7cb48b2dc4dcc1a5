"""The network under a job: InfiniBand and RoCE ports, TCP between its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from hangtop.diagnosis.addresses import nodes_by_name
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Port
from hangtop.diagnosis.phrasing import count, listed, ranks_text
from hangtop.diagnosis.waits.job_status import JobStatus

TCP_RETRANSMIT_SHARE = 0.03
"""Ours: a host with overloaded CPUs retransmits one segment in a hundred without any loss."""
TCP_RETRANSMITS_PER_S = 10.0
"""Ours: below this rate the share means nothing."""
TCP_SEGMENTS_PER_S = 100.0
"""Ours: fewer segments are keepalives and hangtop's own connections, not the job's traffic."""
FRESH_S = 15.0
"""Greatest age, in seconds, of a dump whose list of connections counts."""
TOLD = 4
"""Most pairs of nodes that are listed as evidence."""


ERRORS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_xmit_discards", "excessive_buffer_overrun_errors", "local_link_integrity_errors", "packet_seq_err",
    "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err", "roce_adp_retrans",
    "roce_adp_retrans_to", "roce_slow_restart",
)  # fmt: skip
"""Counters whose growth while the job runs is a finding: those of the kernel's sysfs ABI (``sysfs-class-infiniband``)
and hw_counters of mlx5 (NVIDIA's "understanding mlx5 counters"). CNP, ECN and port_xmit_wait are pressure, not
errors."""
PORT_ERRORS = (
    "Link down, symbol errors: cable or transceiver. Receive errors: the port at the far end. Discards: congestion. "
    "Sequence errors: loss on the way from the port that counts packet_seq_err; check PFC and ECN along it."
)


def port_down(job: Job) -> Iterator[Finding]:
    """ib_port_down: a port that is not Active or has no link, while the same port of most other nodes is up.

    A port that is down everywhere is not cabled.
    """
    same: dict[str, list[bool]] = defaultdict(list)
    for _, name, port in _ports(job):
        same[name].append(_is_up(port))
    for node, name, port in _ports(job):
        up, others = sum(same[name]), len(same[name]) - 1
        if not _is_up(port) and not _flaps(port) and 2 * up > others:
            yield _on_port(
                node, name, port, "ib_port_down", "critical",
                f" is {port.facts.state} ({port.facts.phys_state}); {up} of {count(others, 'peer')} are up",
                "Check cable and switch port (Polling: no light from the far end; INIT: no subnet manager).",
            )  # fmt: skip


def port_errors(job: Job) -> Iterator[Finding]:
    """ib_port_errors: an error counter grew while the port was watched, or it went down and came back."""
    for node, name, port in _ports(job):
        grown, flaps = port.grown, _flaps(port)
        words = [f"{error} +{grown[error]}" for error in ERRORS if grown.get(error, 0) > 0]
        if flaps:
            words.append(f"{flaps} times down and up again while watched")
        if words:
            yield _on_port(node, name, port, "ib_port_errors", "warning", f": {listed(words)}", PORT_ERRORS)


def _on_port(
    node: Node, name: str, port: Port, kind: str, severity: Severity, text: str, advice: str
) -> Finding:  # fmt: skip
    """A finding about one port; ``text`` follows ``port mlx5_0/1 on node4``."""
    facts = port.facts
    state = f"state {facts.state}, physical state {facts.phys_state}, rate {facts.rate or 'unknown'} Gb/s"
    grown = listed([f"{counter} +{number}" for counter, number in port.grown.items()])
    return Finding(
        kind, severity, 0.9, f"port {name} on {node.name}{text}", nodes=(node.name,),
        ports=(f"{node.name}:{name}",), advice=advice,
        evidence=(Evidence(
            Observer.PORT, f"/sys/class/infiniband/{facts.device}/ports/{facts.port} on {node.name}",
            port.changes[-1].at if port.changes else None, "; ".join(filter(None, (state, grown))),
        ),),
    )  # fmt: skip


def _ports(job: Job) -> Iterator[tuple[Node, str, Port]]:
    """Every port with its node and its name, in order."""
    for _, node in sorted(job.nodes.items()):
        for name, port in sorted(node.ports.items()):
            yield node, name, port


def _is_up(port: Port) -> bool:
    return port.facts.state == "ACTIVE" and port.facts.phys_state in ("LinkUp", "")  # ibv_devinfo shows no link state


def _flaps(port: Port) -> int:
    """How often the port was seen to come back."""
    states = pairwise(sample.value.state == "ACTIVE" for sample in port.changes)
    return sum(after and not before for before, after in states)


# --- TCP ----------------------------------------


def packet_loss(job: Job) -> Iterator[Finding]:
    """packet_loss: the share of TCP segments that a node retransmits is over the threshold.

    The threshold rises with the load: overloaded nodes answer late, and segments are sent again without loss.
    """
    for name, node in sorted(job.nodes.items()):
        sent, again = node.segments_per_s or 0.0, node.retransmitted_per_s or 0.0
        load = node.host.load / node.host.cpus if node.host else 0.0
        least = max(TCP_RETRANSMITS_PER_S, TCP_RETRANSMIT_SHARE * sent * max(1.0, load))
        if sent >= TCP_SEGMENTS_PER_S and again >= least:
            text = f"{again / sent:.1%} of {sent:.0f} segments per second"
            yield Finding(
                "packet_loss", "warning", 0.8, f"{name} sends {text} again: packets get lost on their way from it",
                nodes=(name,), evidence=(Evidence(Observer.NETWORK, f"/proc/net/snmp on {name}", job.now, text),),
                advice="Look for drops at its interface and switch port; probe the path from this node to the others.",
            )  # fmt: skip


def path_blocked(job_status: JobStatus) -> Iterator[Finding]:
    """path_blocked: the job stands still, and kernels of its nodes retransmit to one another without an answer.

    The kernel still acknowledges data for a stopped rank. A single connection counts only after the alarm: on a lossy
    path, four losses in a row are possible.
    """
    job = job_status.job
    late = (job.stood_still or 0.0) >= job_status.alarm_after
    silent = _unanswered(job) if job.live and (job_status.hung or late) else {}
    ways = sum(map(len, silent.values()))
    if not ways or (ways == 1 and not late):
        return
    names = sorted({name for pair in silent for name in pair})
    common = [name for name in names if all(name in pair for pair in silent)]
    nodes = common if len(common) == 1 and len(names) > 2 else names
    ranks = {rank for ends in silent.values() for rank, _ in ends}
    yield Finding(
        "path_blocked", "critical", 0.85,
        f"what is sent {'to and from' if len(nodes) == 1 else 'between'} {listed(nodes)} is not acknowledged on "
        f"{count(ways, 'connection')} ({ranks_text(ranks)})",
        nodes=tuple(nodes),
        evidence=tuple(
            Evidence(Observer.NETWORK, f"sock_diag on {sender}", job.now,
                     f"to {receiver}, repeated: {listed([f'{ranks_text((rank,))} to {end}' for rank, end in ends])}")
            for (sender, receiver), ends in sorted(silent.items())[:TOLD]
        ),
        advice="Look at the link, the firewall and the MTU between these nodes: small packets may still pass.",
        next=(next_step("P", "probe", "path", *names),),
    )  # fmt: skip


def _unanswered(job: Job) -> Mapping[tuple[str, str], Sequence[tuple[int, str]]]:
    """(sender, receiver) → ranks of the sender, each with a far end that acknowledges nothing."""
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks if rank.gone_at is None}
    newest = {
        (node, dump.pid): dump for node, dump in zip(job.stack_nodes, job.stacks, strict=False)
        if dump.pid == dump.rank_pid and dump.at >= job.now - FRESH_S and (node, dump.pid) in ranks
    }  # fmt: skip
    silent: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    at = nodes_by_name(job, ((node, dump) for (node, _), dump in newest.items())) if newest else {}
    for (node, pid), dump in newest.items():
        for end in dump.unanswered:
            far = at.get(end.rpartition(":")[0].strip("[]"), "")
            if far and far != node:
                silent[node, far].append((ranks[node, pid], end))
    return silent


RULES = (port_down, port_errors, packet_loss)
STATUS_RULES = (path_blocked,)
