"""NVLink: links whose errors grow or that are down, GPUs that have not joined their fabric, and its daemons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.gpus import FabricService, GpuFabric
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.devices import all_gpus, ranks_on_gpu, ranks_on_node
from hangtop.diagnosis.evidence.events import event_line, events_on
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Look, Node
from hangtop.diagnosis.phrasing import count, folded, listed
from hangtop.diagnosis.rules.hardware import on_gpu

SETTLES_S = 60.0
"""Ours: Fabric Manager trains the links of eight GPUs in half a minute."""
BOOTS_S = 600.0
"""Ours: on a node that has been up for longer nothing is about to join."""
PENDING = ("Not Started", "In Progress")
WELL = ("Success", "", "N/A", "[N/A]")
SICK = ("Unhealthy", "Limited Capacity")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
LOGS = {MANAGER: "/var/log/fabricmanager.log", IMEX: "/var/log/nvidia-imex.log"}


def nvlink_errors(job: Job) -> Iterator[Finding]:
    """nvlink_errors: replay, recovery or CRC counters grew while watched, or a link is down, and others of its node up.

    Needs NVLink counters at two times, or the states of links. Where no link of a node is up, cards without a bridge
    look the same as broken ones: that is information.
    """
    joined = {node.name for node, gpu in all_gpus(job) if any(link.active for link in gpu.nvlinks)}
    for node, gpu in all_gpus(job):
        grown = [
            f"link {link}: {listed([f'{name} +{number}' for name, number in counters.items() if number > 0])}"
            for link, counters in sorted(gpu.nvlink_grown.items())
            if any(number > 0 for number in counters.values())
        ]
        down = [f"link {one.link} is down" for one in gpu.nvlinks if not one.active and node.name in joined]
        if grown or down:
            yield on_gpu(
                job, node, gpu, "nvlink_errors", "warning", 0.85 if grown else 0.6,
                f"has NVLink errors: {listed([*grown, *down])}",
                Evidence(f"NVML on {node.name}", job.now, listed([*grown, *down], most=8)),
                "Drain the node and reset all GPUs of the NVLink domain; errors that come again are hardware.",
            )  # fmt: skip
    for name in sorted(set(job.nodes) - joined):
        gpus = [gpu for gpu in job.nodes[name].gpus if gpu.nvlinks]
        if gpus:
            links = sum(len(gpu.nvlinks) for gpu in gpus)
            text = f"all {count(links, 'NVLink')} of {count(len(gpus), 'GPU')} are down"
            yield Finding(
                "nvlink_errors", "info", 0.4, f"{text} on {name}", ranks=ranks_on_node(job, name), nodes=(name,),
                evidence=(Evidence(f"NVLinks of {name}", job.now, text),),
                advice="On SXM boards this is a fault: look at the fabric manager and at dmesg. Of PCIe cards without "
                "a bridge nothing else is to be expected.",
            )  # fmt: skip


def fabric_down(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: GPUs that are not well in their fabric, or a daemon that is down where devices need it.

    Needs nvidia-smi's fabric columns; of daemons, their state (systemctl, nvidia-imex-ctl or /proc) and the devices
    that show the need: NVSwitches, IMEX channels.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        down = [service for service in node.fabric_services if service.state == "down"]
        wrong = [look for look in node.fabric if _wrong(look.value)]
        if bad := [look for look in wrong if _settled(job, node, look)]:
            yield _not_joined(job, node, bad, down)
        for service in () if wrong else down:
            if service.needed:
                effect = "ranks of other nodes cannot share memory with it over NVLink"
                if service.name != IMEX:
                    effect = "what runs goes on or is aborted, and nothing new may start"
                yield Finding(
                    "nvlink_fabric_down", "warning", 0.8,
                    f"{name}: {service.name} is down ({service.said}) where {service.needed} needs it: {effect}",
                    ranks=ranks_on_node(job, name), nodes=(name,), evidence=(_proof(service),),
                    advice=_remedy([service]),
                )  # fmt: skip


def _not_joined(job: Job, node: Node, bad: Sequence[Look[GpuFabric]], down: Sequence[FabricService]) -> Finding:
    """GPUs whose state in their fabric is not Completed, or not with Success: CUDA does not start on them."""
    gpus, first = [look.value.gpu for look in bad], bad[0].value
    sick = first.state not in PENDING and first.health in SICK
    state = first.state if first.state in PENDING else f"{first.state}, {first.status}"
    cause = f", and {down[0].name} is down ({down[0].said})" if down else ""
    which = f"{'GPU' if len(gpus) == 1 else 'GPUs'} {folded(gpus)} {'is' if len(gpus) == 1 else 'are'}"
    told = [f"GPU {f.gpu}: state {f.state}, status {f.status}, health {f.health}" for f in (look.value for look in bad)]
    more = [f"and {count(len(told) - 4, 'GPU')} more"] if len(told) > 4 else []
    return Finding(
        "nvlink_fabric_down", "warning" if sick else "critical", 0.9 if down else 0.75,
        f"{node.name}: {which} not well in the NVLink fabric: {f'health {first.health}' if sick else state}{cause}",
        ranks=tuple(sorted({rank for gpu in gpus for rank in ranks_on_gpu(job, node, gpu)})), nodes=(node.name,),
        gpus=tuple(f"{node.name}:{gpu}" for gpu in gpus),
        evidence=(*(Evidence("nvidia-smi", bad[0].at, text) for text in (*told[:4], *more)), *map(_proof, down)),
        advice="Programs on these GPUs fail with CUDA's error 802 (system not yet initialized) until it is. "
        f"{_remedy(down)}",
    )  # fmt: skip


def service_failed(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: the Fabric Manager's service ended with an error and was not started again.

    Needs systemd's lines, or those of the service's starter.
    """
    for name in sorted(job.nodes):
        failed: list[LogEvent] = []
        for event in events_on(job, job.nodes[name], "kernel.fabric_manager"):
            if event.data.get("what") == "started":
                failed.clear()
            elif event.data.get("what") == "service":
                failed.append(event)
        if failed:
            yield Finding(
                "nvlink_fabric_down", "warning", 0.7, f"{name}: {MANAGER} fails: {failed[0].data.get('why')}",
                ranks=ranks_on_node(job, name), nodes=(name,),
                evidence=tuple(event_line(event) for event in failed[:4]),
                advice="Where the node has NVSwitches no program can use its GPUs until it runs; its version must be "
                f"the driver's. Where it has none, disable the service: systemctl disable {MANAGER}.",
            )  # fmt: skip


def _wrong(fabric: GpuFabric) -> bool:
    failed = fabric.state == "Completed" and fabric.status not in WELL
    return fabric.state in PENDING or failed or fabric.health in SICK


def _settled(job: Job, node: Node, look: Look[GpuFabric]) -> bool:
    up = node.host is not None and job.now - node.host.booted > BOOTS_S
    return up or job.now - look.at > SETTLES_S or look.value.state not in PENDING


def _proof(service: FabricService) -> Evidence:
    source, colon, rest = service.said.partition(": ")
    return Evidence(source if colon else "/proc", None, f"{service.name}: {rest or service.said}")


def _remedy(down: Sequence[FabricService]) -> str:
    if not down:
        return "Look at the logs of nvidia-fabricmanager, its version (it must be the driver's), and NVLink errors."
    name = down[0].name
    return f"Drain the node, look at {LOGS.get(name, LOGS[MANAGER])}, and start it: systemctl restart {name}."
