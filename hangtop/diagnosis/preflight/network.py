"""Checks between nodes: loopback, addresses, the port at which ranks meet, MTU, adapters."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator

from hangtop.diagnosis.addresses import chosen_interface, names_of
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.preflight.scene import UNTOLD, CheckCell, Preflight, texts

BRIDGES = tuple(
    ipaddress.ip_network(net) for net in ("172.17.0.0/16", "192.168.122.0/24", "10.0.2.0/24", "169.254.0.0/16")
)
"""Address ranges that docker, libvirt, slirp and link-local give out by default: never reachable from other nodes."""


def loopback(scene: Preflight) -> Iterator[CheckCell]:
    """A TCP connect to itself: torchrun's agent and its ranks talk that way."""
    for node in scene.nodes():
        found = scene.answer(node.name, "loopback")
        if found is None:
            yield CheckCell("loopback", node.name, "unknown", UNTOLD)
        elif found.error:
            blocks = firewall_of(scene.answers, [node.name])
            yield CheckCell(
                "loopback", node.name, "fail", f"{found.error}; {blocks[0]}" if blocks else found.error,
                "loopback_blocked",
                blocks[1].replace("SUBNET", "127.0.0.0/8") if blocks
                else "ip link set lo up; look for firewall rules on lo (nft list ruleset)",
            )  # fmt: skip
        else:
            yield CheckCell("loopback", node.name, "ok", "connects")


def addresses(scene: Preflight) -> Iterator[CheckCell]:
    """Whether the master's address is one that other nodes can reach, and whether all nodes agree on what it means."""
    master = scene.master[0]
    if not master:
        return
    resolved = {node.name: tuple(texts(scene.answer(node.name, "resolve", master))) for node in scene.nodes()}
    own = {node.name: tuple(texts(scene.answer(node.name, "own_name", master))) for node in scene.nodes()}
    several = len(scene.job.nodes) > 1
    agreed = Counter(found for name, found in resolved.items() if found and name != scene.master_node)
    usual = agreed.most_common(1)[0][0] if agreed else ()
    for node in scene.nodes():
        found = resolved[node.name] or own[node.name]
        answer = scene.answer(node.name, "resolve", master) or scene.answer(node.name, "own_name", master)
        if answer is None:
            continue
        if not found:
            yield CheckCell(
                "address",
                node.name,
                "fail",
                f"{master}: {answer.error}",
                "path_blocked",
                f"getent hosts {master}; use an IP address",
            )
        elif several and (bad := [address for address in found if _local(address)]):
            yield CheckCell(
                "address", node.name, "fail", f"{master} is {bad[0]} here, which no other node can reach",
                "container_address",
                "Set MASTER_ADDR to the address of the interface that the nodes share (ip -br address).",
            )  # fmt: skip
        elif several and usual and found != usual and node.name != scene.master_node:
            yield CheckCell(
                "address", node.name, "fail", f"{master} is {', '.join(found)} here, elsewhere {', '.join(usual)}",
                "path_blocked",
                f"Make /etc/hosts and DNS agree: getent hosts {master}",
            )  # fmt: skip
        else:
            yield CheckCell("address", node.name, "ok", ", ".join(found))


def _local(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or any(parsed in net for net in BRIDGES if parsed.version == net.version)


def meeting_port(scene: Preflight) -> Iterator[CheckCell]:
    """The rendezvous port on the master's node: free, or who holds it, with a free one to use instead."""
    node = scene.job.nodes.get(scene.master_node)
    if node is None:
        return
    port = scene.master[1]
    use = next((use for use in node.network.ports if use.port == port), None)
    free = scene.answer(node.name, "free_port")
    instead = (
        f"MASTER_PORT={free.value} is free there"
        if free and isinstance(free.value, int)
        else "take another MASTER_PORT"
    )
    ranks_here = {str(rank.process.pid) for rank in scene.ranks(node.name)}
    parents = {str(rank.process.parent) for rank in scene.ranks(node.name)}
    if use and use.listening:
        holders = ", ".join(use.listeners) or "a process that may not be seen"
        ours = any(holder.split(" ")[0] in ranks_here | parents for holder in use.listeners)
        if ours:
            yield CheckCell("port", node.name, "ok", f"{port} is held by the job: {holders}")
        else:
            yield CheckCell(
                "port",
                node.name,
                "fail",
                f"{port} is held by {holders}",
                "port_taken",
                f"{instead}; or: fuser -k {port}/tcp",
            )
        return
    tried = scene.answer(node.name, "listen", str(port))
    if tried is None:
        yield CheckCell("port", node.name, "unknown", f"{port} was not tried")
    elif tried.error:
        yield CheckCell("port", node.name, "fail", f"{port}: {tried.error}", "port_taken", instead)
    elif use and use.time_wait:
        yield CheckCell("port", node.name, "ok", f"{port} is free ({use.time_wait} in TIME_WAIT; {instead} too)")
    else:
        yield CheckCell("port", node.name, "ok", f"{port} is free")


def paths(scene: Preflight) -> Iterator[CheckCell]:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    for node in scene.nodes():
        tried = scene.all(node.name, "connect")
        if not tried:
            continue
        broken = [answer for answer in tried if answer.error]
        if broken:
            text = "; ".join(f"{answer.subject}: {answer.error}" for answer in broken[:4])
            more = f" and {len(broken) - 4} more" if len(broken) > 4 else ""
            host, _, port = broken[0].subject.rpartition(":")
            peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
            blocks = firewall_of(scene.answers, [*peers, node.name])
            yield CheckCell(
                "paths", node.name, "fail", f"{text}{more}; {blocks[0]}" if blocks else text + more, "path_blocked",
                blocks[1] if blocks
                else f"Look at the firewall between the two (nft list ruleset) and at the route (ip route get {host}); "
                f"then nc -vz {host} {port}",
            )  # fmt: skip
        else:
            slowest = max((answer.value for answer in tried if isinstance(answer.value, float)), default=0.0)
            yield CheckCell("paths", node.name, "ok", f"{len(tried)} open, slowest {slowest * 1000:.1f} ms")


def mtu(scene: Preflight) -> Iterator[CheckCell]:
    """MTU of the interface that the job would use, equal on all nodes."""
    found: dict[str, tuple[str, int]] = {}
    for node in scene.nodes():
        name = chosen_interface(scene.job, node)
        interface = next((item for item in node.network.interfaces if item.name == name), None)
        if interface and interface.kind != "loopback":
            found[node.name] = (interface.name, interface.mtu)
    if not found:
        return
    usual = Counter(mtu for _, mtu in found.values()).most_common(1)[0][0]
    for name, (interface_name, value) in sorted(found.items()):
        if value != usual:
            yield CheckCell(
                "MTU", name, "fail", f"{value} on {interface_name}, elsewhere {usual}", "mtu_mismatch",
                f"ip link set {interface_name} mtu {usual} (and the same on every hop)",
            )  # fmt: skip
        else:
            yield CheckCell("MTU", name, "ok", f"{value} on {interface_name}")


def adapters(scene: Preflight) -> Iterator[CheckCell]:
    """HCA ports: active, as many as elsewhere, and at the same rate."""
    known = [node for node in scene.nodes() if node.ports or scene.said(node, "fabric")]
    active = {
        node.name: sorted(port.facts.rate or 0.0 for port in node.ports if port.facts.state.upper() == "ACTIVE")
        for node in known
    }
    if not any(node.ports for node in known):
        return
    for node in scene.nodes():
        if node.name not in active:
            yield CheckCell("fabric", node.name, "unknown", UNTOLD)
    usual = list(Counter(tuple(rates) for rates in active.values()).most_common(1)[0][0])
    for node in known:
        down = [port for port in node.ports if port.facts.state.upper() != "ACTIVE"]
        rates = active[node.name]
        if down and rates != usual:
            text = ", ".join(
                f"{port.facts.device}/{port.facts.port} {port.facts.state} {port.facts.phys_state}" for port in down
            )
            yield CheckCell(
                "fabric",
                node.name,
                "fail",
                text,
                "ib_port_down",
                "Check the cable; Polling means no light from the far end.",
            )
        elif rates != usual:
            text = f"{len(rates)} active at {_rates(rates)} Gb/s, elsewhere {len(usual)} at {_rates(usual)}"
            yield CheckCell(
                "fabric",
                node.name,
                "warn",
                text,
                "ib_port_down",
                "ibstat; ibportstate: the link trained at less than it should",
            )
        else:
            yield CheckCell(
                "fabric", node.name, "ok", f"{len(rates)} active at {_rates(rates)} Gb/s" if rates else "none active"
            )


def _rates(rates: list[float]) -> str:
    return "/".join(f"{rate:g}" for rate in sorted(set(rates))) or "–"
