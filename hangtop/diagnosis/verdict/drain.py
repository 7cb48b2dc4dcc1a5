"""The command that takes a node at fault out of the pool, in the words of the scheduler that the job runs under.

Shown with the finding and copied with it; run only by ``hangtop repair drain`` or its key, once somebody said yes. The
forms are those of scontrol(1) ("update nodename=… state=drain reason=…") and ``kubectl cordon``.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from collectors.samples.location import HOST, HOST_VARIABLES
from hangtop.diagnosis.finding import Finding, NextStep
from hangtop.diagnosis.job import Job

NODE_AT_FAULT = frozenset(
    {
        "gpu_lost", "gpu_driver_hung", "gpu_needs_reset", "gpu_ecc", "gpu_xid", "nvlink_errors", "nvlink_fabric_down",
        "ib_port_down", "node_unreachable", "kernel_trouble", "silent_corruption", "slow_node",
    }
)  # fmt: skip
"""Kinds after which the next job should not run on the node; of the lesser ones see :data:`SEVERE`."""
SEVERE = frozenset({"gpu_xid", "gpu_ecc", "nvlink_errors", "nvlink_fabric_down", "kernel_trouble"})
"""Of these only critical ones: an Xid may be the program's own fault, a corrected error is no reason."""
MOST = 8
"""Nodes that are drained for one finding; what befalls more is no fault of theirs."""
REASON = 120
"""Characters of the reason: what squeue and sinfo show of it is shorter."""
_ONE_NODE = re.compile(r"(?!all\Z)[a-z0-9][a-z0-9._-]{0,252}\Z", re.IGNORECASE)
"""An environment is a user's to choose, and ``ALL``, a set or an option would name other nodes as well."""
KEY = "c"
"""Copies the proof, and with it this command."""


def with_drain(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings; those that blame a node have the command among their next steps."""
    return tuple(_with_drain(job, finding) if _blames_nodes(finding) else finding for finding in findings)


def _blames_nodes(finding: Finding) -> bool:
    severe = finding.severity == "critical" or finding.kind not in SEVERE
    return finding.kind in NODE_AT_FAULT and severe and not finding.cause and 0 < len(finding.nodes) <= MOST


def _with_drain(job: Job, finding: Finding) -> Finding:
    commands = drain_commands(job, finding.nodes, f"hangtop: {finding.kind}: {finding.summary}")
    return replace(finding, next=(*finding.next, *(NextStep(KEY, command) for command in commands)))


def drain_commands(job: Job, nodes: Iterable[str], reason: str) -> list[str]:
    """The commands of each scheduler for these nodes; none for nodes on which no scheduler shows."""
    names: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        scheduler, candidates = _scheduled(job, node)
        if name := next(filter(_ONE_NODE.match, candidates), ""):
            names[scheduler].append(name)
    commands = [["kubectl", "cordon", name] for name in names["kubernetes"]]
    if slurm := names["slurm"]:
        why = " ".join(reason.split())[:REASON]
        commands.insert(0, ["scontrol", "update", f"nodename={','.join(slurm)}", "state=drain", f"reason={why}"])
    return [shlex.join(words) for words in commands]


def _scheduled(job: Job, node: str) -> tuple[str, list[str]]:
    """Which scheduler has this node, and what the node may be called there, the surest first.

    The host's name is that of Kubernetes' node only where the ranks are in containers and hangtop is not: a session
    that came in by ``kubectl exec``, or by an sshd in the pod, hears the pod's.
    """
    known = job.nodes.get(node)
    hostname = known.hello.hostname if known is not None and known.hello is not None else node
    own = [rank.process for rank in job.ranks if rank.node == node]
    anywhere = own or [rank.process for rank in job.ranks]  # a node that does not respond has its job's scheduler
    if any(process.env.get("SLURM_JOB_ID") for process in anywhere):
        return "slurm", [*(process.env.get("SLURMD_NODENAME", "") for process in own), hostname.partition(".")[0]]
    if any(process.env.get("KUBERNETES_SERVICE_HOST") for process in anywhere):
        by_kubectl = [place.name for place in (known.locations if known is not None else ()) if place.level == HOST]
        by_ranks = [process.env.get(name, "") for process in own for name in HOST_VARIABLES]
        outside = [hostname] if any(process.own_pid for process in anywhere) else []
        return "kubernetes", [*by_kubectl, *by_ranks, *outside]
    return "", []
