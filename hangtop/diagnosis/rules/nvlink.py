"""NVLink and how devices are wired: links that fail, GPUs outside their fabric, nodes that differ from their peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from collectors.samples.gpus import FabricService, GpuFabric, Topology
from hangtop.diagnosis.evidence.gpus import all_gpus, ranks_on_gpu
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job, Look, Node
from hangtop.diagnosis.phrasing import count, folded, listed
from hangtop.diagnosis.roster import ranks_on_node
from hangtop.diagnosis.rules.gpus import on_gpu

SETTLES_S = 60.0
"""Ours: Fabric Manager trains the links of eight GPUs in half a minute."""
PENDING = ("Not Started", "In Progress")
WELL = ("Success", "", "N/A", "[N/A]")
SICK = ("Unhealthy", "Limited Capacity")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
LOGS = {MANAGER: "/var/log/fabricmanager.log", IMEX: "/var/log/nvidia-imex.log"}
WIRED_ALIKE = 3
"""Ours: of two nodes that differ, neither is known to be the odd one."""


def nvlink_errors(job: Job) -> Iterator[Finding]:
    """nvlink_errors: error counters of a link grew while it was watched, or it is down while others of its node are up.

    Where no link of a node is up, cards without a bridge look the same as broken ones: nothing is said.
    """
    joined = {node.name for node, gpu in all_gpus(job) if any(link.active for link in gpu.nvlinks)}
    for node, gpu in all_gpus(job):
        grown = [
            f"link {link}: {listed([f'{name} +{number}' for name, number in counters.items() if number > 0])}"
            for link, counters in sorted(gpu.nvlink_grown.items())
            if any(number > 0 for number in counters.values())
        ]
        wrong = grown + [f"link {one.link} is down" for one in gpu.nvlinks if not one.active and node.name in joined]
        if wrong:
            yield on_gpu(
                job, node, gpu, "nvlink_errors", "warning", 0.85 if grown else 0.6,
                f"has NVLink errors: {listed(wrong)}",
                Evidence(Observer.GPU, f"NVML on {node.name}", job.now, listed(wrong, most=8)),
                "Drain the node and reset all GPUs of the NVLink domain; errors that come again are hardware.",
            )  # fmt: skip


def fabric_down(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: GPUs that are not well in their fabric, or a daemon that is down where devices need it.

    The daemons are Fabric Manager and IMEX; NVSwitches and IMEX channels show the need.
    """
    for name, node in sorted(job.nodes.items()):
        down = [service for service in node.fabric_services if service.state == "down"]
        wrong = [look for look in node.fabric if _is_wrong(look.value)]
        settled = [look for look in wrong if look.value.state not in PENDING or job.now - look.at > SETTLES_S]
        if settled:
            yield _not_joined(job, node, settled, down)
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
    return Finding(
        "nvlink_fabric_down", "warning" if sick else "critical", 0.9 if down else 0.75,
        f"{node.name}: {which} not well in the NVLink fabric: {f'health {first.health}' if sick else state}{cause}",
        ranks=tuple(sorted({rank for gpu in gpus for rank in ranks_on_gpu(job, node, gpu)})), nodes=(node.name,),
        gpus=tuple(f"{node.name}:{gpu}" for gpu in gpus),
        evidence=(*(Evidence(Observer.GPU, "nvidia-smi", bad[0].at, text) for text in told[:4]), *map(_proof, down)),
        advice="Programs on these GPUs fail with CUDA's error 802 (system not yet initialized) until it is. "
        f"{_remedy(down)}",
    )  # fmt: skip


def _is_wrong(fabric: GpuFabric) -> bool:
    failed = fabric.state == "Completed" and fabric.status not in WELL
    return fabric.state in PENDING or failed or fabric.health in SICK


def _proof(service: FabricService) -> Evidence:
    source, colon, rest = service.said.partition(": ")
    return Evidence(Observer.PROCESS, source if colon else "/proc", None, f"{service.name}: {rest or service.said}")


def _remedy(down: Sequence[FabricService]) -> str:
    if not down:
        return "Look at the logs of nvidia-fabricmanager, its version (it must be the driver's), and NVLink errors."
    name = down[0].name
    return f"Drain the node, look at {LOGS.get(name, LOGS[MANAGER])}, and start it: systemctl restart {name}."


def topology_differs(job: Job) -> Iterator[Finding]:
    """topology_differs: by ``nvidia-smi topo -m`` this node is wired otherwise than most nodes of the same devices.

    Example: seven nodes have NV18 between all GPUs, node5 has SYS between GPU3 and every other one.
    """
    alike: dict[tuple[str, ...], dict[str, Topology]] = {}
    for name, node in sorted(job.nodes.items()):
        if node.topology is not None:
            alike.setdefault(tuple(node.topology.devices), {})[name] = node.topology
    for devices, nodes in alike.items():
        matrices = {name: tuple(map(tuple, found.links)) for name, found in nodes.items()}
        usual, agree = Counter(matrices.values()).most_common(1)[0]
        if len(nodes) < WIRED_ALIKE or 2 * agree <= len(nodes):
            continue
        for name, links in matrices.items():
            cells = [
                f"{devices[row]}-{devices[column]} {links[row][column]}, not {usual[row][column]}"
                for row in range(len(devices))
                for column in range(row + 1, len(devices))
                if links[row][column] != usual[row][column]
            ]
            if cells:
                lost = any("not NV" in cell for cell in cells)
                yield Finding(
                    "topology_differs", "warning", 0.8,
                    f"{name} is wired otherwise than {count(agree, 'other node')}: {listed(cells, most=3)}",
                    ranks=ranks_on_node(job, name), nodes=(name,),
                    evidence=(Evidence(Observer.GPU, f"nvidia-smi topo -m on {name}", None, listed(cells, most=12)),),
                    advice="An NVLink is gone: look at dmesg and at nvidia-smi nvlink -s, reset the GPUs, and drain "
                    "the node." if lost else "Compare slots, BIOS settings (NUMA nodes per socket, ACS) and the "
                    "virtual machine's layout with the others'.",
                )  # fmt: skip
