"""NVLink fabrics: GPUs that have not joined theirs, and the daemons without which they do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.gpus import FabricService, GpuFabric
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Look, Node
from hangtop.diagnosis.phrasing import count, folded
from hangtop.diagnosis.witnesses.devices import event_line, events_on, ranks_on_gpu, ranks_on_node

SETTLES_S = 60.0
"""Ours: Fabric Manager trains the links of eight GPUs in half a minute."""
BOOTS_S = 600.0
"""Ours: who looks for some seconds at a node that has been up for longer need not wait for that."""
PENDING = ("Not Started", "In Progress")
JOINED = "Completed"
SICK = ("Unhealthy", "Limited Capacity")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"


def not_joined(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: GPUs whose state in their fabric is not Completed, or not with Success: CUDA does not start.

    Needs nvidia-smi's fabric fields, for a minute or on a node that has been up for ten.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        bad = [look for look in node.fabric if _wrong(look.value) and _settled(job, node, look)]
        if not bad:
            continue
        gpus = [look.value.gpu for look in bad]
        words = _words(bad[0].value)
        down = [service for service in node.fabric_services if service.state == "down"]
        cause = f", and {down[0].name} is down ({down[0].said})" if down else ""
        ranks = sorted({rank for gpu in gpus for rank in ranks_on_gpu(job, node, gpu)})
        who = f"{'GPU' if len(gpus) == 1 else 'GPUs'} {folded(gpus)}"
        verb = "is" if len(gpus) == 1 else "are"
        starting = bad[0].value.state in PENDING
        yield Finding(
            "nvlink_fabric_down", "critical" if starting or (bad[0].value.state == JOINED and not _sick(bad[0].value))
            else "warning", 0.9 if down else 0.75,
            f"{name}: {who} {verb} not well in the NVLink fabric: {words}{cause}",
            ranks=tuple(ranks), nodes=(name,), gpus=tuple(f"{name}:{gpu}" for gpu in gpus),
            evidence=(*_seen(bad), *map(_said, down)),
            advice=f"Programs on these GPUs fail with CUDA's error 802 (system not yet initialized) until it is. "
            f"{_remedy(down)}",
        )  # fmt: skip


def service_down(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: Fabric Manager or IMEX does not run, or is not ready, on a node whose devices need it.

    Needs the daemon's state, and devices that show the need: NVSwitches, IMEX channels.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        if any(_wrong(look.value) for look in node.fabric):
            continue  # told with its effect, once that has lasted
        for service in node.fabric_services:
            if service.state != "down" or not service.needed:
                continue
            effect = (
                "ranks of other nodes cannot share memory with it over NVLink"
                if service.name == IMEX else "what runs goes on or is aborted, and nothing new may start"
            )  # fmt: skip
            yield Finding(
                "nvlink_fabric_down", "warning", 0.8,
                f"{name}: {service.name} is down ({service.said}) where {service.needed} needs it: {effect}",
                ranks=ranks_on_node(job, name), nodes=(name,), evidence=(_said(service),),
                advice=_remedy([service]),
            )  # fmt: skip


def service_failed(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: the Fabric Manager's service ended with an error and was not started again.

    Needs systemd's lines, or those of the service's starter.
    """
    for name in sorted(job.nodes):
        told = list(events_on(job, job.nodes[name], "kernel.fabric_manager"))
        last = max((at for at, event in enumerate(told) if event.data.get("what") == "started"), default=-1)
        failed = [event for event in told[last + 1 :] if event.data.get("what") == "service"]
        if failed:
            yield Finding(
                "nvlink_fabric_down", "warning", 0.7,
                f"{name}: {MANAGER} fails: {failed[0].data.get('why')}",
                ranks=ranks_on_node(job, name), nodes=(name,),
                evidence=tuple(event_line(event) for event in failed[:4]),
                advice=f"Where the node has NVSwitches no program can use its GPUs until it runs; its version must be "
                f"the driver's. Where it has none, disable the service: systemctl disable {MANAGER}.",
            )  # fmt: skip


def _wrong(fabric: GpuFabric) -> bool:
    failed = fabric.state == JOINED and fabric.status not in ("Success", "", "N/A", "[N/A]")
    return fabric.state in PENDING or failed or _sick(fabric)


def _sick(fabric: GpuFabric) -> bool:
    return fabric.health in SICK


def _settled(job: Job, node: Node, look: Look[GpuFabric]) -> bool:
    up = node.host is not None and job.now - node.host.booted > BOOTS_S
    return up or job.now - look.at > SETTLES_S or look.value.state not in PENDING


def _words(fabric: GpuFabric) -> str:
    if fabric.state in PENDING:
        return fabric.state
    return f"health {fabric.health}" if _sick(fabric) else f"{fabric.state}, {fabric.status}"


def _seen(looks: Sequence[Look[GpuFabric]]) -> Iterator[Evidence]:
    for look in looks[:4]:
        fabric = look.value
        told = f"GPU {fabric.gpu}: state {fabric.state}, status {fabric.status}, health {fabric.health}"
        yield Evidence("nvidia-smi", look.at, told)
    if len(looks) > 4:
        yield Evidence("nvidia-smi", looks[4].at, f"and {count(len(looks) - 4, 'GPU')} more")


def _said(service: FabricService) -> Evidence:
    source, colon, rest = service.said.partition(": ")
    return Evidence(source if colon else "/proc", None, f"{service.name}: {rest or service.said}")


def _remedy(down: Sequence[FabricService]) -> str:
    if not down:
        return "Look at the logs of nvidia-fabricmanager, its version (it must be the driver's), and NVLink errors."
    name = down[0].name
    log = "/var/log/nvidia-imex.log" if name == IMEX else "/var/log/fabricmanager.log"
    return f"Drain the node, look at {log}, and start it: systemctl restart {name}."
