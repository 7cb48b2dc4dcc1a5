"""Checks of nodes against each other: the ranks' meeting, paths, MTU, adapters, GPUs, versions."""

from __future__ import annotations

import ipaddress
from collections import Counter

from hangtop.diagnosis.addresses import chosen_interface, names_of
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.job import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.scene import UNTOLD, Answers, CheckAnswer, Preflight, most_common, texts

BRIDGES = tuple(
    ipaddress.ip_network(net) for net in ("172.17.0.0/16", "192.168.122.0/24", "10.0.2.0/24", "169.254.0.0/16")
)
"""Address ranges that docker, libvirt, slirp and link-local give out by default: never reachable from other nodes."""
COMPARED = ("nvidia", "cuda", "nccl", "torch")


def addresses(scene: Preflight) -> Answers:
    """Whether the master's address is one that other nodes can reach, and whether all nodes agree on what it means."""
    master = scene.master[0]
    names = [node.name for node in scene.nodes()] if master else []
    asked = {name: scene.answer(name, "resolve", master) or scene.answer(name, "own_name", master) for name in names}
    resolved = {name: tuple(texts(answer)) for name, answer in asked.items() if answer is not None}
    others = {name: found for name, found in resolved.items() if found and name != scene.master_node}
    usual = most_common(others.values())
    for name, found in resolved.items():
        bad = next((address for address in found if len(scene.job.nodes) > 1 and _is_local(address)), "")
        if not found:
            error = answer.error if (answer := asked[name]) else ""
            remedy = f"getent hosts {master}; use an IP address"
            yield name, CheckAnswer("fail", f"{master}: {error}", "path_blocked", remedy)
        elif bad:
            yield name, CheckAnswer(
                "fail", f"{master} is {bad} here, which no other node can reach", "container_address",
                "Set MASTER_ADDR to the address of the interface that the nodes share (ip -br address).",
            )  # fmt: skip
        elif name in others and usual is not None and found != usual:
            yield name, CheckAnswer(
                "fail", f"{master} is {', '.join(found)} here, elsewhere {', '.join(usual)}", "path_blocked",
                f"Make /etc/hosts and DNS agree: getent hosts {master}",
            )  # fmt: skip
        else:
            yield name, CheckAnswer("ok", ", ".join(found))


def _is_local(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or any(parsed in net for net in BRIDGES if parsed.version == net.version)


def meeting_port(scene: Preflight) -> Answers:
    """The rendezvous port on the master's node: free, or who holds it, with a free one to use instead."""
    node = scene.job.nodes.get(scene.master_node)
    if node is None:
        return
    port = scene.master[1]
    use = next((use for use in node.network.ports if use.port == port), None)
    free, tried = scene.answer(node.name, "free_port"), scene.answer(node.name, "listen", str(port))
    known = free is not None and isinstance(free.value, int)
    instead = f"MASTER_PORT={free.value} is free there" if free and known else "take another MASTER_PORT"
    if use and use.listening:
        holders = ", ".join(use.listeners) or "a process that may not be seen"
        own = {str(pid) for rank in scene.ranks(node.name) for pid in (rank.process.pid, rank.process.parent)}
        if any(holder.split(" ")[0] in own for holder in use.listeners):
            yield node.name, CheckAnswer("ok", f"{port} is held by the job: {holders}")
        else:
            remedy = f"{instead}; or: fuser -k {port}/tcp"
            yield node.name, CheckAnswer("fail", f"{port} is held by {holders}", "port_taken", remedy)
    elif tried is None:
        yield node.name, CheckAnswer("unknown", f"{port} was not tried")
    elif tried.error:
        yield node.name, CheckAnswer("fail", f"{port}: {tried.error}", "port_taken", instead)
    else:
        yield node.name, CheckAnswer("ok", f"{port} is free")


def paths(scene: Preflight, node: Node) -> CheckAnswer | None:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    tried = scene.all(node.name, "connect")
    broken = [answer for answer in tried if answer.error]
    if not tried:
        return None
    if not broken:
        slowest = max((answer.value for answer in tried if isinstance(answer.value, float)), default=0.0)
        return CheckAnswer("ok", f"{len(tried)} open, slowest {slowest * 1000:.1f} ms")
    text = listed([f"{answer.subject}: {answer.error}" for answer in broken], 4)
    host, _, port = broken[0].subject.rpartition(":")
    peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
    if blocks := firewall_of(scene.answers, [*peers, node.name]):
        return CheckAnswer("fail", f"{text}; {blocks[0]}", "path_blocked", blocks[1])
    return CheckAnswer(
        "fail", text, "path_blocked",
        f"Look at the firewall between the two (nft list ruleset) and at the route (ip route get {host}); "
        f"then nc -vz {host} {port}",
    )  # fmt: skip


def mtu(scene: Preflight) -> Answers:
    """MTU of the interface that the job would use, equal on all nodes."""
    found = {}
    for node in scene.nodes():
        name = chosen_interface(scene.job, node)
        interface = next((item for item in node.network.interfaces if item.name == name), None)
        if interface and interface.kind != "loopback":
            found[node.name] = interface
    usual = most_common(interface.mtu for interface in found.values())
    for name, interface in sorted(found.items()):
        text = f"{interface.mtu} on {interface.name}"
        if interface.mtu == usual:
            yield name, CheckAnswer("ok", text)
        else:
            remedy = f"ip link set {interface.name} mtu {usual} (and the same on every hop)"
            yield name, CheckAnswer("fail", f"{text}, elsewhere {usual}", "mtu_mismatch", remedy)


def adapters(scene: Preflight) -> Answers:
    """HCA ports: active, as many as elsewhere, and at the same rate."""
    rates = {
        node.name: tuple(sorted(port.facts.rate or 0.0 for port in node.ports if port.facts.state.upper() == "ACTIVE"))
        for node in scene.nodes()
        if node.ports or scene.said(node, "fabric")
    }
    usual = most_common(rates.values()) or ()
    for node in scene.nodes() if any(node.ports for node in scene.nodes()) else ():
        own = rates.get(node.name)
        down = [port.facts for port in node.ports if port.facts.state.upper() != "ACTIVE"]
        if own is None:
            yield node.name, CheckAnswer("unknown", UNTOLD)
        elif own == usual:
            yield node.name, CheckAnswer("ok", _active(own))
        elif down:
            text = ", ".join(f"{facts.device}/{facts.port} {facts.state} {facts.phys_state}" for facts in down)
            remedy = "Check the cable; Polling means no light from the far end."
            yield node.name, CheckAnswer("fail", text, "ib_port_down", remedy)
        else:
            remedy = "ibstat; ibportstate: the link trained at less than it should"
            yield node.name, CheckAnswer("warn", f"{_active(own)}, elsewhere {_active(usual)}", "ib_port_down", remedy)


def _active(rates: tuple[float, ...]) -> str:
    return f"{len(rates)} active at {'/'.join(f'{rate:g}' for rate in sorted(set(rates)))} Gb/s" if rates else "none"


def gpus(scene: Preflight) -> Answers:
    """GPUs: none lost, as many and of the same kind as elsewhere, and idle unless the job's own ranks are on them."""
    kinds = {
        node.name: tuple(sorted(Counter(gpu.facts.name if gpu.facts else "unknown" for gpu in node.gpus).items()))
        for node in scene.nodes()
        if node.gpus or ((state := node.sources.get("gpus")) is not None and state.state == "absent")
    }
    usual = most_common(kinds.values()) or ()
    for node in scene.nodes():
        state = node.sources.get("gpus")
        if node.name in kinds and any(kinds.values()):
            yield node.name, _gpus_of(scene, node, kinds[node.name], usual)
        elif node.name not in kinds and (any(kinds.values()) or state is not None):
            # where no node has told of any it is still no word for "none" that nvidia-smi does not answer
            yield node.name, CheckAnswer("unknown", (state.why if state else "") or UNTOLD)


Kinds = tuple[tuple[str, int], ...]


def _gpus_of(scene: Preflight, node: Node, kinds: Kinds, usual: Kinds) -> CheckAnswer:
    lost = [f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus if gpu.fault]
    if lost:
        remedy = "Drain the node; nvidia-smi --gpu-reset or restart it."
        return CheckAnswer("fail", "; ".join(lost), "gpu_lost", remedy)
    if kinds != usual:
        figure = f"{_counted(kinds)}, elsewhere {_counted(usual)}"
        return CheckAnswer("fail", figure, "gpu_lost", "nvidia-smi -L; dmesg | grep -i xid")
    mine = {rank.process.pid for rank in scene.ranks(node.name)}
    used = [
        f"GPU {gpu.index}: pid {process.pid} {process.name} ({size(process.memory or 0)})"
        for gpu in node.gpus for process in gpu.processes if process.pid not in mine
    ]  # fmt: skip
    if used:
        return CheckAnswer("warn", listed(used, 4), "zombie_process", "nvidia-smi; end what an earlier run left")
    return CheckAnswer("ok", _counted(kinds))


def _counted(kinds: Kinds) -> str:
    return ", ".join(f"{number} × {name}" for name, number in kinds) or "none"


def versions(scene: Preflight) -> Answers:
    """Driver, CUDA, NCCL and torch, equal on all nodes; the ranks' own where there are ranks."""
    found: dict[str, dict[str, str]] = {}
    for node in scene.nodes():
        merged = dict(node.host.versions) if node.host else {}
        drivers = [gpu.facts.driver for gpu in node.gpus if gpu.facts and gpu.facts.driver]
        merged |= {"nvidia": drivers[0]} if drivers else {}
        for rank in scene.ranks(node.name)[:1]:
            merged.update(rank.process.versions)
        found[node.name] = {name: merged[name] for name in COMPARED if merged.get(name)}
    usual = {name: most_common(own[name] for own in found.values() if name in own) for name in COMPARED}
    for node_name, own in sorted(found.items()):
        odd = [f"{name} {value}, elsewhere {usual[name]}" for name, value in own.items() if value != usual[name]]
        if odd:
            remedy = "Install the same image on every node."
            yield node_name, CheckAnswer("fail", "; ".join(odd), "env_mismatch", remedy)
        elif own:
            yield node_name, CheckAnswer("ok", ", ".join(f"{name} {value}" for name, value in own.items()))
        else:
            said = scene.said(scene.job.nodes[node_name], "software")
            yield node_name, CheckAnswer("unknown", "no file here tells a version" if said else UNTOLD)
