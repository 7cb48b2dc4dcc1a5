"""GPUs and NICs that are connected otherwise than on the other nodes of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from collectors.samples.gpus import Topology
from hangtop.diagnosis.evidence.devices import ranks_on_node
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed

NODES = 3
"""Ours: of two nodes that differ, neither is known to be the odd one."""

LINK_GONE = "An NVLink is gone: look at dmesg and at nvidia-smi nvlink -s, reset the GPUs, and drain the node."
WIRED = "Compare slots, BIOS settings (NUMA nodes per socket, ACS) and the virtual machine's layout with the others'."


def topology_differs(job: Job) -> Iterator[Finding]:
    """topology_differs: most nodes of the same devices agree on the matrix of links, and this node does not.

    Needs ``nvidia-smi topo -m`` of three nodes. Example: seven nodes have NV18 between all GPUs, node5 has SYS between
    GPU3 and every other one.
    """
    alike: dict[tuple[str, ...], dict[str, Topology]] = {}
    for name, node in sorted(job.nodes.items()):
        if node.topology is not None:
            alike.setdefault(tuple(node.topology.devices), {})[name] = node.topology
    for nodes in alike.values():
        matrices = Counter(_matrix(found) for found in nodes.values())
        usual, agree = matrices.most_common(1)[0]
        if len(nodes) < NODES or 2 * agree <= len(nodes):
            continue
        for name, found in nodes.items():
            if _matrix(found) != usual:
                yield _differs(job, name, found, usual, agree)


def _matrix(found: Topology) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, found.links))


def _differs(job: Job, name: str, found: Topology, usual: tuple[tuple[str, ...], ...], agree: int) -> Finding:
    cells = [
        f"{found.devices[row]}-{found.devices[column]} {found.links[row][column]}, not {usual[row][column]}"
        for row in range(len(found.devices))
        for column in range(row + 1, len(found.devices))
        if found.links[row][column] != usual[row][column]
    ]
    lost = any("not NV" in cell for cell in cells)
    return Finding(
        "topology_differs", "warning", 0.8,
        f"{name} is wired otherwise than {count(agree, 'other node')}: {listed(cells, most=3)}",
        ranks=ranks_on_node(job, name), nodes=(name,),
        evidence=(Evidence(f"nvidia-smi topo -m on {name}", None, listed(cells, most=12)),),
        advice=LINK_GONE if lost else WIRED,
    )  # fmt: skip
