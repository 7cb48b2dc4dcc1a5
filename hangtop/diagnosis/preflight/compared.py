"""Checks of nodes against each other: rows whose odd one out is at fault, and the meeting place of the ranks."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hangtop.diagnosis.addresses import chosen_interface
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.preflight.scene import UNTOLD, CheckCell, Preflight, State, texts
from hangtop.diagnosis.rules.nvlink import topology_differs

BRIDGES = tuple(
    ipaddress.ip_network(net)
    for net in ("127.0.0.0/8", "::1/128", "172.17.0.0/16", "192.168.122.0/24", "10.0.2.0/24", "169.254.0.0/16")
)
"""Loopback, and ranges of docker, libvirt, slirp and link-local by default: never reachable from other nodes."""


class Compared(NamedTuple):
    """What all nodes should have alike: a node that differs from most is at fault."""

    check: str
    kind: str
    remedy: str
    value: Callable[[Preflight, Node], str | None]
    """Empty for a node that is known to have none, None where it is not known."""
    source: str = ""
    """The source that would tell; its reason is said where the value is not known."""

    def cells(self, scene: Preflight) -> Iterator[CheckCell]:
        """Compare all nodes; nothing where none has a value."""
        values = {node.name: self.value(scene, node) for node in scene.nodes()}
        told = Counter(value for value in values.values() if value is not None)
        usual = told.most_common(1)[0][0] if told else ""
        for name, value in values.items():
            state = scene.job.nodes[name].sources.get(self.source)
            if value is None and (any(told) or state is not None):
                yield CheckCell(self.check, name, "unknown", (state.why if state else "") or UNTOLD)
            elif value is not None and value != usual:
                figure = f"{value or 'none'}, elsewhere {usual or 'none'}"
                yield CheckCell(self.check, name, "fail", figure, self.kind, self.remedy)
            elif value:
                yield CheckCell(self.check, name, "ok", value)


def _mtu(scene: Preflight, node: Node) -> str | None:
    name = chosen_interface(scene.job, node)
    found = next((one for one in node.interface_facts if one.name == name and one.kind != "loopback"), None)
    return str(found.mtu) if found else None


def _adapters(_: Preflight, node: Node) -> str | None:
    state = node.sources.get("fabric")
    if not node.ports and (state is None or state.state not in ("ok", "absent")):
        return None
    rates = sorted(port.facts.rate or 0.0 for port in node.ports.values() if port.facts.state.upper() == "ACTIVE")
    return f"{len(rates)} active at {'/'.join(f'{rate:g}' for rate in sorted(set(rates)))} Gb/s" if rates else ""


def _gpus(_: Preflight, node: Node) -> str | None:
    state = node.sources.get("gpus")
    if not node.gpus and (state is None or state.state != "absent"):  # it answers, but not of any GPU yet
        return None
    kinds = Counter(gpu.facts.name if gpu.facts else "unknown" for gpu in node.gpus.values())
    return ", ".join(f"{number} × {name}" for name, number in sorted(kinds.items()))


def _driver(_: Preflight, node: Node) -> str | None:
    told = next((gpu.facts.driver for gpu in node.gpus.values() if gpu.facts and gpu.facts.driver), None)
    return told or (node.host.versions.get("nvidia") if node.host else None)


def _version(name: str) -> Callable[[Preflight, Node], str | None]:
    """The ranks' own version of a library, else the node's."""

    def value(scene: Preflight, node: Node) -> str | None:
        own = [rank.process.versions[name] for rank in scene.ranks(node.name) if name in rank.process.versions]
        return own[0] if own else node.host.versions.get(name) if node.host else None

    return value


_IMAGE = "Install the same image on every node."
ALIKE = (
    Compared("MTU", "mtu_mismatch", "ip link set INTERFACE mtu N, the same on every hop (ip -br link)", _mtu),
    Compared("fabric", "ib_port_down", "ibstat: check the cable of a port that is not active, the rate of one that is",
             _adapters, "fabric"),
    Compared("GPUs", "gpu_lost", "nvidia-smi -L; dmesg | grep -i xid", _gpus, "gpus"),
    Compared("driver", "env_mismatch", _IMAGE, _driver),
    Compared("CUDA", "env_mismatch", _IMAGE, _version("cuda")),
    Compared("NCCL", "env_mismatch", _IMAGE, _version("nccl")),
    Compared("torch", "env_mismatch", _IMAGE, _version("torch")),
)  # fmt: skip
"""To compare something else, write a row."""


def topology(scene: Preflight) -> Iterator[CheckCell]:
    """``nvidia-smi topo -m``: wired as most nodes with the same devices."""
    odd = {finding.nodes[0]: finding for finding in topology_differs(scene.job)}
    for node in scene.nodes():
        if finding := odd.get(node.name):
            figure = finding.evidence[0].text
            yield CheckCell("topology", node.name, "warn", figure, finding.kind, finding.advice)
        elif node.topology is not None:
            yield CheckCell("topology", node.name, "ok", "as most nodes")


def addresses(scene: Preflight) -> Iterator[CheckCell]:
    """Whether the master's address is one that other nodes can reach, and whether all nodes agree on what it means."""
    master = scene.master[0]
    asked = {
        node.name: answer for node in scene.nodes()
        if (answer := scene.answer(node.name, "resolve", master) or scene.answer(node.name, "own_name", master))
    }  # fmt: skip
    resolved = {name: ", ".join(texts(answer)) for name, answer in asked.items()}
    told = Counter(found for name, found in resolved.items() if found and name != scene.master_node)
    usual = told.most_common(1)[0][0] if told else ""
    agree = f"Make /etc/hosts and DNS agree: getent hosts {master}"
    for name, answer in asked.items():
        found = resolved[name]
        bad = next((address for address in texts(answer) if len(scene.job.nodes) > 1 and _is_local(address)), "")
        if bad:
            yield CheckCell(
                "address", name, "fail", f"{master} is {bad} here, which no other node can reach", "container_address",
                "Set MASTER_ADDR to the address of the interface that the nodes share (ip -br address).",
            )  # fmt: skip
        elif not found:
            yield CheckCell("address", name, "fail", f"{master}: {answer.error}", "path_blocked", agree)
        elif name != scene.master_node and found != usual:
            figure = f"{master} is {found} here, elsewhere {usual}"
            yield CheckCell("address", name, "fail", figure, "path_blocked", agree)
        else:
            yield CheckCell("address", name, "ok", found)


def _is_local(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in net for net in BRIDGES)


def meeting_port(scene: Preflight) -> Iterator[CheckCell]:
    """The rendezvous port on the master's node: free, or who holds it, with a free one to use instead."""
    node, port = scene.job.nodes.get(scene.master_node), scene.master[1]
    if node is None:
        return
    use = next((use for use in node.port_uses.values() if use.port == port and use.listening), None)
    free, tried = scene.answer(node.name, "free_port"), scene.answer(node.name, "listen", str(port))
    instead = f"MASTER_PORT={free.value} is free there" if free and free.value else "take another MASTER_PORT"
    state: State = "ok"
    if use is not None:
        own = {str(pid) for rank in scene.ranks(node.name) for pid in (rank.process.pid, rank.process.parent)}
        figure = f"{port} is held by {', '.join(use.listeners) or 'a process that may not be seen'}"
        if not any(holder.split(" ")[0] in own for holder in use.listeners):  # else it is the job's own
            state, instead = "fail", f"{instead}; or: fuser -k {port}/tcp"
    elif tried is not None and tried.error:
        state, figure = "fail", f"{port}: {tried.error}"
    else:
        state, figure = ("ok", f"{port} is free") if tried else ("unknown", f"{port} was not tried")
    more = ("port_taken", instead) if state == "fail" else ()
    yield CheckCell("port", node.name, state, figure, *more)
