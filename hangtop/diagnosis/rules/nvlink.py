"""NVLink: links that fail, GPUs outside their fabric."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.gpus import GpuFabric
from hangtop.diagnosis.evidence.gpus import all_gpus, ranks_on_gpu
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import folded, listed
from hangtop.diagnosis.roster import ranks_on_node
from hangtop.diagnosis.rules.gpus import on_gpu

SETTLES_S = 60.0
"""Ours: Fabric Manager trains the links of eight GPUs in half a minute."""
PENDING = ("Not Started", "In Progress")
WELL = ("Success", "", "N/A", "[N/A]")
SICK = ("Unhealthy", "Limited Capacity")
FABRIC_UP = (
    "CUDA fails with error 802 until the fabric is up: see /var/log/fabricmanager.log and nvidia-imex.log; versions of "
    "Fabric Manager and IMEX must be the driver's."
)


def nvlink_errors(job: Job) -> Iterator[Finding]:
    """nvlink_errors: error counters of a link grew while it was watched, or it is down while others of its node are up.

    Where no link of a node is up, cards without a bridge look the same as broken ones: nothing is said.
    """
    joined = {node.name for node, gpu in all_gpus(job) if any(link.active for link in gpu.nvlinks.values())}
    for node, gpu in all_gpus(job):
        grown = [
            f"link {link}: {listed([f'{name} +{number}' for name, number in counters.items() if number > 0])}"
            for link, counters in sorted(gpu.nvlink_grown.items())
            if any(number > 0 for number in counters.values())
        ]
        wrong = grown + [
            f"link {one.link} is down" for one in gpu.nvlinks.values() if not one.active and node.name in joined
        ]
        if wrong:
            yield on_gpu(
                job, node, gpu, "nvlink_errors", "warning", 0.85 if grown else 0.6,
                f"has NVLink errors: {listed(wrong)}",
                Evidence(Observer.GPU, f"NVML on {node.name}", job.now, listed(wrong, most=8)),
                "Drain the node and reset all GPUs of the NVLink domain; errors that come again are hardware.",
            )  # fmt: skip


def fabric_down(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: GPUs that are not well in their fabric, or a daemon that is down where devices need it.

    The daemons are Fabric Manager and IMEX; NVSwitches and IMEX channels show the need. What runs goes on without them,
    and nothing new may start.
    """
    for name, node in sorted(job.nodes.items()):
        wrong = [look for look in node.fabric.values() if _is_wrong(look.value)]
        bad = [look for look in wrong if look.value.state not in PENDING or job.now - look.at > SETTLES_S]
        down = [one for one in node.fabric_services.values() if one.state == "down" and one.needed]
        if not bad and (wrong or not down):
            continue
        gpus = [look.value.gpu for look in bad]
        told = [f"{one.name} is down ({one.said}) where {one.needed} needs it" for one in down]
        if bad:
            first = bad[0].value
            which = f"GPU {gpus[0]} is" if len(gpus) == 1 else f"GPUs {folded(gpus)} are"
            state = f"{first.state}, status {first.status}, health {first.health or 'not told'}"
            told.insert(0, f"{which} not well in the NVLink fabric: {state}")
        starts = any(look.value.state in PENDING or look.value.health not in SICK for look in bad[:1])
        yield Finding(
            "nvlink_fabric_down", "critical" if starts else "warning", 0.9 if bad and down else 0.8 if down else 0.75,
            f"{name}: {', and '.join(told)}",
            ranks=tuple(sorted({r for gpu in gpus for r in ranks_on_gpu(job, node, gpu)})) or ranks_on_node(job, name),
            nodes=(name,), gpus=tuple(f"{name}:{gpu}" for gpu in gpus),
            evidence=(
                *(Evidence(Observer.GPU, "nvidia-smi", look.at, f"GPU {look.value.gpu}: {look.value.state}")
                  for look in bad[:4]),
                *(Evidence(Observer.PROCESS, f"services of {name}", None, f"{one.name}: {one.said}") for one in down),
            ),
            advice=f"Drain the node. {FABRIC_UP}" + "".join(f" systemctl restart {one.name}." for one in down[:1]),
        )  # fmt: skip


def _is_wrong(fabric: GpuFabric) -> bool:
    failed = fabric.state == "Completed" and fabric.status not in WELL
    return fabric.state in PENDING or failed or fabric.health in SICK


RULES = (nvlink_errors, fabric_down)
