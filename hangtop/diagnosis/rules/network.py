"""The TCP network: segments sent again, frame sizes that do not agree."""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.tables.thresholds import TCP_RETRANSMIT_SHARE, TCP_RETRANSMITS_PER_S, TCP_SEGMENTS_PER_S

PRIVATE_BRIDGES = ("docker", "br-", "virbr", "cni", "flannel", "lxc", "podman", "veth")
"""Interfaces whose networks repeat on every host without being one network."""


def tcp_retransmits(job: Job) -> Iterator[Finding]:
    """tcp_retransmits: the share of TCP segments that a node has to send again is over the threshold.

    Needs /proc/net/snmp at two times, while enough is sent for a share to mean something. A node with more to do than
    it has processors for answers late, and what nobody lost is sent again.
    """
    for name in sorted(job.nodes):
        use = job.nodes[name].network
        if use.segments_per_s is None or use.segments_per_s < TCP_SEGMENTS_PER_S:
            continue  # the kernel counts no repeated segments in there: a link that is cut sends nothing else
        if use.retransmitted_per_s is None or use.retransmitted_per_s < TCP_RETRANSMITS_PER_S:
            continue
        share = use.retransmitted_per_s / use.segments_per_s
        if share >= TCP_RETRANSMIT_SHARE * _wanted_cpus(job.nodes[name]):
            text = f"{share:.1%} of {use.segments_per_s:.0f} segments per second"
            yield Finding(
                "tcp_retransmits", "warning", 0.8, f"{name} sends {text} again: packets get lost on their way from it",
                nodes=(name,), evidence=(Evidence(f"/proc/net/snmp on {name}", job.now, text),),
                advice="Look for drops at its interface and switch port; probe the path from this node to the others.",
            )  # fmt: skip


def _wanted_cpus(node: Node) -> float:
    """So many times its processors are asked for, by its load; 1 for a node that is not overloaded."""
    if node.host is None or node.load is None or node.host.cpus <= 0:
        return 1.0
    return max(1.0, node.load.load / node.host.cpus)


def mtu_mismatch(job: Job) -> Iterator[Finding]:
    """mtu_mismatch: interfaces of one network differ in their MTU.

    Needs the interfaces' addresses with their prefixes; bridges that every host has for itself are left out.
    """
    networks: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for name in sorted(job.nodes):
        for interface in job.nodes[name].network.interfaces:
            if not interface.up or interface.kind == "loopback" or interface.name.startswith(PRIVATE_BRIDGES):
                continue
            for network in {_network(address) for address in interface.addresses}:
                if network:
                    networks[network].append((name, interface.name, interface.mtu))
    told: set[tuple[tuple[str, str, int], ...]] = set()
    for network, members in sorted(networks.items()):
        sizes = Counter(mtu for _, _, mtu in members)
        if len(sizes) < 2 or len({name for name, _, _ in members}) < 2 or tuple(members) in told:
            continue
        told.add(tuple(members))
        usual = max(sizes, key=lambda mtu: (sizes[mtu], mtu))
        odd = [(name, interface, mtu) for name, interface, mtu in members if mtu != usual]
        words = [f"{interface} on {name} has {mtu}" for name, interface, mtu in odd]
        yield Finding(
            "mtu_mismatch", "warning", 0.85, f"MTU differs within {network}: {listed(words)}, the others {usual}",
            nodes=tuple(sorted({name for name, _, _ in odd})),
            evidence=tuple(
                Evidence(f"/sys/class/net/{interface}/mtu on {name}", None, str(mtu))
                for name, interface, mtu in members[:8]
            ),
            advice="Set one MTU on every hop; full frames to the smaller side are dropped or broken up.",
        )  # fmt: skip


@lru_cache(maxsize=32_768)
def _network(address: str) -> str:
    try:
        network = ipaddress.ip_interface(address).network
    except ValueError:  # remote text: not an address
        return ""
    usable = network.num_addresses > 1 and not network.is_link_local and not network.is_loopback
    return str(network) if usable else ""
