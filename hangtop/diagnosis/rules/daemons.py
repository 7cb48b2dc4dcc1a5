"""Nodes that a launcher has lost: the daemon that it had started there does not answer any more."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.witnesses.devices import ranks_on_node
from hangtop.diagnosis.witnesses.event_fields import text_of
from hangtop.diagnosis.witnesses.messages import lines, said


def lost(job: Job) -> Iterator[Finding]:
    """node_unreachable by Open MPI (ORTE, PRRTE), that lost its daemon on a node and ended the job, or by its ssh.

    Needs the launcher's words; Kubernetes' node controller and Ray say the same of their nodes.
    """
    events = said(job, "launcher.lost_node")
    hosts = tuple(sorted({event.host for event in events} - {""}))
    hosts = hosts or tuple(sorted({text_of(event, "peer") for event in said(job, "peer.lost")} - {""}))
    if events:
        ranks = tuple(sorted({rank for host in hosts for rank in ranks_on_node(job, host)}))
        where = listed(hosts) if hosts else "a node"
        why = next((text for event in events if (text := text_of(event, "why"))), "")
        yield Finding(
            "node_unreachable", "critical", 0.85,
            f"the launcher cannot reach {where}: {why}" if why else
            f"the launcher lost its daemon on {where}, and ended the job",
            ranks=ranks, nodes=hosts, evidence=lines(events),
            advice="Look at that node: did it restart or run out of memory, was the daemon killed, is its network up?",
        )  # fmt: skip
