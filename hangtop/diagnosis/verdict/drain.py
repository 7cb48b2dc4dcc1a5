"""The command that takes a node at fault out of the pool, in the words of the scheduler that the job runs under.

Shown with the finding and copied with it; run only by ``hangtop repair drain`` or its key, once somebody said yes. The
forms are those of scontrol(1) ("update nodename=… state=drain reason=…") and ``kubectl cordon``.
"""

from __future__ import annotations

import re
import shlex
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
_ONE = re.compile(r"(?!all\Z)[a-z0-9][a-z0-9._-]{0,252}\Z", re.IGNORECASE)
"""Name of one node: an environment is a user's to choose, and ``ALL``, a set or an option would name others as well."""
KEY = "c"
"""Copies the proof, and with it this command."""


def with_drain(job: Job, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The same findings; those that blame a node have the command among their next steps."""
    return tuple(_with_drain(job, finding) for finding in findings)


def _with_drain(job: Job, finding: Finding) -> Finding:
    blames = finding.kind in NODE_AT_FAULT and not finding.cause
    if not blames or (finding.kind in SEVERE and finding.severity != "critical") or not 0 < len(finding.nodes) <= MOST:
        return finding
    commands = drain_commands(job, finding.nodes, f"hangtop: {finding.kind}: {finding.summary}")
    commands += [_where_it_runs(pod) for pod in _unknown_homes(job, finding.nodes)]
    return replace(
        finding,
        advice=" ".join(filter(None, [finding.advice, left_out(job, finding.nodes)])),
        next=(*finding.next, *(NextStep(KEY, command) for command in commands)),
    )


def drain_commands(job: Job, nodes: Iterable[str], reason: str) -> list[str]:
    """One command for the nodes of each scheduler; none for nodes on which no scheduler shows."""
    slurm: list[str] = []
    kubernetes: list[str] = []
    for node in nodes:
        scheduler, name = _scheduled(job, node)
        if name:
            (slurm if scheduler == "slurm" else kubernetes).append(name)
    commands = []
    if slurm:
        why = " ".join(reason.split())[:REASON]
        words = ["scontrol", "update", f"nodename={','.join(slurm)}", "state=drain", f"reason={why}"]
        commands.append(shlex.join(words))
    commands += [shlex.join(["kubectl", "cordon", name]) for name in kubernetes]
    return commands


def left_out(job: Job, nodes: Iterable[str]) -> str:
    """What somebody may do who may not drain: leave Slurm's nodes out of a job of his own; empty without Slurm."""
    slurm = [name for scheduler, name in (_scheduled(job, node) for node in nodes) if scheduler == "slurm" and name]
    return f"Who may not drain leaves it out of the next job: sbatch --exclude={','.join(slurm)}." if slurm else ""


def _where_it_runs(pod: str) -> str:
    return shlex.join(["kubectl", "get", "pods", "-A", "-o", "wide", f"--field-selector=metadata.name={pod}"])


def _unknown_homes(job: Job, nodes: Iterable[str]) -> list[str]:
    """Pods, by the names of their hosts, of which nobody has told on which node of Kubernetes they run."""
    pods = [node for node in nodes if _scheduled(job, node) == ("kubernetes", "")]
    hellos = [known.hello for known in (job.nodes.get(pod) for pod in pods) if known is not None]
    return [hello.hostname for hello in hellos if hello is not None]


def host_of(job: Job, node: str) -> str:
    """The Kubernetes node that a pod runs on, as kubectl told it; empty where it told none."""
    known = job.nodes.get(node)
    places = known.locations if known is not None else ()
    return next((place.name for place in places if place.level == HOST), "")


def _scheduled(job: Job, node: str) -> tuple[str, str]:
    """Which scheduler has this node, and the node's name there; empty where none shows, or it is not known.

    What is no name of one node is passed over, whoever told it.

    The host's name is that of Kubernetes' node only where the ranks are in containers and hangtop is not: who came in
    by ``kubectl exec``, or by an sshd in the pod, hears the pod's.
    """
    known = job.nodes.get(node)
    hostname = known.hello.hostname if known is not None and known.hello is not None else node
    own = [rank.process.env for rank in job.ranks if rank.node == node]
    anywhere = own or [rank.process.env for rank in job.ranks]  # a node that does not respond has its job's scheduler
    if any(env.get("SLURM_JOB_ID") for env in anywhere):
        return "slurm", _first([*(env.get("SLURMD_NODENAME", "") for env in own), hostname.partition(".")[0]])
    if any(env.get("KUBERNETES_SERVICE_HOST") for env in anywhere):
        named = [env.get(name, "") for env in own for name in HOST_VARIABLES]
        there = [rank.process for rank in job.ranks if rank.node == node] or [rank.process for rank in job.ranks]
        outside = any(process.own_pid for process in there)
        return "kubernetes", _first([host_of(job, node), *named, hostname if outside else ""])
    return "", ""


def _first(names: Iterable[str]) -> str:
    """The first that is the name of one node."""
    return next((name for name in names if _ONE.match(name)), "")
