"""From what is known of a job to a probe of its nodes: who takes part, with whose environment, at which address."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.allreduce.plan import OPERATIONS, ProbeNode, ProbePlan
from collectors.probes.path.survey import PathNode
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.job import Job, Node

if TYPE_CHECKING:
    from collectors.probes.allreduce.run import AllreduceProbe, Progress

NEEDED = ("ranks", "network", "gpus", "fabric")
"""Sources that decide who takes part in a probe, through which port and on which GPUs."""
BUSY_SHARE = 10
"""Per cent of utilisation, or of memory, from which a GPU counts as busy."""


class Connections(Protocol):
    """What a probe needs of a session."""

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`TransportError`."""

    def python(self, node: str) -> str:
        """The interpreter that was found on a node. Raises :class:`TransportError`."""


class ProbeRefused(Exception):
    """The probe would harm or cannot work; the text says why, and what would change that."""


def probe_nodes(job: Job, names: Collection[str] | None, backend: str) -> tuple[ProbeNode, ...]:
    """The nodes that take part: all that were asked for, also those that do not answer (they will be named absent)."""
    chosen = [node for name, node in sorted(job.nodes.items()) if names is None or name in names]
    return tuple(_probe_node(job, node, backend) for node in chosen)


def _probe_node(job: Job, node: Node, backend: str) -> ProbeNode:
    pids = [rank.process.pid for rank in job.ranks if rank.node == node.name and rank.gone_at is None]
    gpus = tuple(sorted(gpu.index for gpu in node.gpus if gpu.fault is None)) if backend == "nccl" else ()
    return ProbeNode(
        node.name, address_of(job, node), chosen_interface(job, node) or "", len(gpus), min(pids) if pids else None,
        gpus,
    )  # fmt: skip


def backend_of(job: Job, wanted: str) -> str:
    """``auto`` is nccl where every node has idle GPUs, else gloo, which is safe beside a job."""
    if wanted != "auto":
        return wanted
    nodes = list(job.nodes.values())
    idle = bool(nodes) and all(node.gpus and not busy_gpus(node) for node in nodes)
    return "nccl" if idle else "gloo"


def busy_gpus(node: Node) -> list[str]:
    """GPUs of a node that somebody uses, as ``node:index``."""
    found = []
    for gpu in node.gpus:
        latest = gpu.looks[-1].value if gpu.looks else None
        total = gpu.facts.memory_total if gpu.facts else None
        full = bool(latest and total and (latest.memory_used or 0) * 100 > total * BUSY_SHARE)
        if gpu.processes or full or (latest and (latest.utilization or 0) > BUSY_SHARE):
            found.append(f"{node.name}:{gpu.index}")
    return found


def plan_probe(
    job: Job, *, backend: str = "auto", names: Collection[str] | None = None, sizes: tuple[int, ...] = (),
    operations: tuple[str, ...] = (), python: str = "", force: bool = False, bisect: str = "auto",
    ranks_per_node: int = 1,
) -> ProbePlan:  # fmt: skip
    """Make the plan of a collective probe. Raises :class:`ProbeRefused`."""
    chosen = backend_of(job, backend)
    nodes = probe_nodes(job, names, chosen)
    if not nodes:
        raise ProbeRefused("no node to probe")
    if chosen == "nccl":
        bare = [node.name for node in nodes if not node.gpus]
        if bare:
            raise ProbeRefused(f"nccl needs GPUs, and {', '.join(bare)} shows none; --backend gloo probes the network")
        busy = [gpu for node in nodes for gpu in busy_gpus(job.nodes[node.name])]
        if busy and not force:
            raise ProbeRefused(
                f"GPUs in use: {', '.join(busy[:8])}; nccl would disturb the job (--force does it anyway)"
            )
    if len(nodes) < 2 and sum(max(1, node.gpus if chosen == "nccl" else ranks_per_node) for node in nodes) < 2:
        raise ProbeRefused("a collective needs two ranks: name two nodes, or one with two GPUs")
    unknown = [operation for operation in operations if operation not in OPERATIONS]
    if unknown:
        raise ProbeRefused(f"no operation {', '.join(unknown)}; there are {', '.join(OPERATIONS)}")
    plan = ProbePlan.suited(nodes, chosen)
    return replace(
        plan, python=python, bisect=bisect, operations=operations or plan.operations, sizes=sizes or plan.sizes,
        ranks_per_node=ranks_per_node,
    )  # fmt: skip


def allreduce_probe(session: Connections, plan: ProbePlan, progress: Progress) -> AllreduceProbe:
    """A probe over the session's open connections; a node without one will be named absent."""
    from collectors.probes.allreduce.run import AllreduceProbe  # reads logs: not before the first frame

    transports: dict[str, Transport] = {}
    pythons: dict[str, str] = {}
    for node in plan.nodes:
        try:
            transports[node.name] = session.transport(node.name)
            pythons[node.name] = session.python(node.name)
        except TransportError:
            transports.pop(node.name, None)
    return AllreduceProbe(plan, transports, pythons, progress)


def path_nodes(session: Connections, job: Job) -> tuple[list[PathNode], dict[str, str]]:
    """Nodes that take part in a path probe, and why the others do not."""
    taking_part: list[PathNode] = []
    absent: dict[str, str] = {}
    for name, node in sorted(job.nodes.items()):
        try:
            taking_part.append(PathNode(name, session.transport(name), session.python(name), address_of(job, node)))
        except TransportError as error:
            absent[name] = node.why or str(error)
    return taking_part, absent
