"""How the devices of nodes are connected: a node that differs from its peers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.roster import ranks_on_node

WIRED_ALIKE = 3
"""Ours: least number of nodes to compare; of two that differ, neither is known to be the odd one."""


def topology_differs(job: Job) -> Iterator[Finding]:
    """topology_differs: ``nvidia-smi topo -m`` shows other links than on most nodes with the same devices.

    Example: seven nodes have NV18 between all GPUs, node5 has SYS between GPU3 and every other one.
    """
    alike: dict[tuple[str, ...], dict[str, dict[str, str]]] = defaultdict(dict)
    for name, node in sorted(job.nodes.items()):
        if links := _links(node):
            alike[tuple(links)][name] = links
    for nodes in alike.values():
        cells, agree = Counter(tuple(links.items()) for links in nodes.values()).most_common(1)[0]
        usual = dict(cells)
        for name, links in nodes.items() if len(nodes) >= WIRED_ALIKE and 2 * agree > len(nodes) else ():
            if differ := [f"{pair} {link}, not {usual[pair]}" for pair, link in links.items() if link != usual[pair]]:
                yield Finding(
                    "topology_differs", "warning", 0.8,
                    f"{name} is wired differently from {count(agree, 'other node')}: {listed(differ, most=3)}",
                    ranks=ranks_on_node(job, name), nodes=(name,),
                    evidence=(Evidence(Observer.GPU, f"nvidia-smi topo -m on {name}", None, listed(differ, most=12)),),
                    advice="If an NVLink (NV) is gone, look at dmesg and nvidia-smi nvlink -s, and drain the node. "
                    "Else compare slots and BIOS settings (NUMA nodes per socket, ACS) with the others'.",
                )  # fmt: skip


def _links(node: Node) -> dict[str, str]:
    """Link between each two devices: ``GPU0-GPU3`` → ``NV18``."""
    pairs = combinations([sample.value for sample in node.readings_of("topology")], 2)
    return {f"{one.of}-{other.of}": str(one.values.get(other.of, "")) for one, other in pairs}


RULES = (topology_differs,)
