"""The checks of preflight, and their answers as a table and as findings. To check something else, write a row.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and
IOMMU translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from hangtop.diagnosis.addresses import chosen_interface, names_of
from hangtop.diagnosis.finding import READ_ITSELF, Evidence, Finding, Observer
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.rows import (
    UNKNOWN,
    Answers,
    Check,
    CheckCell,
    NodeAnswer,
    Preflight,
    State,
    alike,
    each,
    items,
)
from hangtop.diagnosis.roster import living_on
from hangtop.diagnosis.rules.nvlink import topology_differs

SHM = 1 << 30
LOCAL = ("127.", "::1", "169.254.", "fe80:", "172.17.")
"""Beginnings of addresses that no other node reaches: loop-back, of the link alone, docker's bridge."""
ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""


# --- the nodes and the way between them ---------------------------------------------------------------------------


def reach(scene: Preflight) -> Answers:
    """Whether the node answered, and whether all of it could be read."""
    for name, node in scene.job.nodes.items():
        if name in scene.silent:
            yield name, NodeAnswer(None, f"connected, but the checks were not answered: {scene.silent[name]}")
        elif node.link in ("live", "offline", "limited"):
            yield name, NodeAnswer(None, node.why) if node.link == "limited" else NodeAnswer(True, "answers")
        else:
            yield name, NodeAnswer(False, node.why or f"is {node.link}")


def master_address(scene: Preflight, node: Node) -> NodeAnswer | None:
    """Whether the master's name has an address here, and one that other nodes can reach."""
    master = scene.master[0]
    answer = scene.answer(node.name, "resolve", master)
    addresses = items(answer, str)
    local = [address for address in addresses if len(scene.job.nodes) > 1 and address.startswith(LOCAL)]
    if local:
        return NodeAnswer(False, f"{master} is {local[0]} here, which no other node can reach")
    return answer and NodeAnswer(bool(addresses), ", ".join(addresses) or f"{master}: {answer.error}")


def master_port(scene: Preflight, node: Node) -> NodeAnswer | None:
    """The rendezvous port on the master's node: free, or held, be it by the job's own rank or launcher."""
    if node.name != scene.master_node:
        return None
    port = scene.master[1]
    tried = scene.answer(node.name, "listen", str(port))
    if tried is None:
        return UNKNOWN
    holders = [str(holder) for holder in tried.value] if isinstance(tried.value, list) else []
    if not holders:
        return NodeAnswer(not tried.error, f"{port}: {tried.error or 'free'}")
    own = {str(pid) for rank in living_on(scene.job, node.name) for pid in (rank.process.pid, rank.process.parent)}
    return NodeAnswer(any(one.partition(" ")[0] in own for one in holders), f"{port} is held by {', '.join(holders)}")


def loopback(scene: Preflight, node: Node) -> NodeAnswer:
    """A TCP connect to itself: torchrun's agent and its ranks talk that way."""
    found = scene.answer(node.name, "loopback")
    if found is None or not found.error:
        return UNKNOWN if found is None else NodeAnswer(True, "connects")
    by, remedy = firewall_of(scene.answers, [node.name]) or ("", "")
    return NodeAnswer(False, "; ".join(filter(None, (found.error, by))), remedy.replace("SUBNET", "127.0.0.0/8"))


def paths(scene: Preflight, node: Node) -> NodeAnswer | None:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    tried = scene.all(node.name, "connect")
    broken = [answer for answer in tried if answer.error]
    if not broken:
        return NodeAnswer(True, f"{len(tried)} open") if tried else None
    text = listed([f"{answer.subject}: {answer.error}" for answer in broken])
    host, _, port = broken[0].subject.rpartition(":")
    peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
    by, remedy = firewall_of(scene.answers, [*peers, node.name]) or (
        "", f"Look for a firewall (nft list ruleset) and at the route (ip route get {host}); then nc -vz {host} {port}"
    )  # fmt: skip
    return NodeAnswer(False, f"{text}; {by}" if by else text, remedy)


# --- devices and limits -------------------------------------------------------------------------------------------


def gpu_faults(_: Preflight, node: Node) -> NodeAnswer | None:
    """GPUs that nvidia-smi calls lost."""
    lost = [f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault]
    return NodeAnswer(not lost, "; ".join(lost) or "none") if node.gpus else None


def topology(scene: Preflight) -> Answers:
    """``nvidia-smi topo -m``: wired as most nodes with the same devices."""
    odd = {finding.nodes[0]: finding.evidence[0].text for finding in topology_differs(scene.job)}
    for node in scene.nodes():
        if node.topology is not None:
            yield node.name, NodeAnswer(node.name not in odd, odd.get(node.name, "as most nodes"))


def pcie(scene: Preflight, node: Node) -> NodeAnswer | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Bridges are read by root alone.
    """
    found = scene.answer(node.name, "pcie")
    if found is None or (found.error and not items(found, str)):
        return found and NodeAnswer(None, found.error)
    return NodeAnswer(not items(found, str), listed(items(found, str), 3) or "no ACS redirect, no translation")


def memlock(scene: Preflight, node: Node) -> NodeAnswer:
    """Locked memory of a login (-1 is unlimited): InfiniBand registers its buffers."""
    if not (limits := items(scene.answer(node.name, "limit", "memlock"), int)):
        return UNKNOWN
    return NodeAnswer(limits[0] < 0 or not node.ports, "unlimited" if limits[0] < 0 else f"{limits[0]} bytes")


def shared_memory(scene: Preflight, node: Node) -> NodeAnswer:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    if not (found := items(scene.answer(node.name, "disk", "/dev/shm"), int)):
        return UNKNOWN
    well = found[0] >= SHM and found[1] >= SHM // 4
    return NodeAnswer(well, f"{size(found[1])} free of {size(found[0])}{'' if well else f'; wanted {size(SHM)}'}")


def tracing(scene: Preflight, node: Node) -> NodeAnswer:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    if len(values := items(scene.answer(node.name, "ptrace"), int)) != 3:
        return UNKNOWN
    scope, root, capable = values
    well = bool(capable or not scope or (root and scope < 3))
    return NodeAnswer(well, f"ptrace_scope is {scope}, and this login is {'root' if root else 'not root'}")


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


def _version(name: str) -> Callable[[Preflight, Node], str | None]:
    return lambda _, node: node.host.versions.get(name) if node.host else None


CHECKS = (
    Check("reach", "node_unreachable", "Reach it by hand in the same way, such as: ssh NODE true", reach),
    Check("address", "path_blocked", "Set MASTER_ADDR to the address of an interface that the nodes share: "
          "ip -br address; getent hosts $MASTER_ADDR", each(master_address)),
    Check("port", "preflight_failed", "Take another MASTER_PORT, or end what holds it: fuser -k $MASTER_PORT/tcp",
          each(master_port)),
    Check("topology", "topology_differs", "Compare `nvidia-smi topo -m` and `nvidia-smi nvlink -s` with another node.",
          topology, "warn"),
    Check("loopback", "preflight_failed", "ip link set lo up; nft list ruleset", each(loopback)),
    Check("paths", "path_blocked", "", each(paths)),
    Check("GPU faults", "gpu_lost", "Drain the node; nvidia-smi --gpu-reset or restart it.", each(gpu_faults)),
    Check("PCIe", "preflight_failed", "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE "
          "ECAP_ACS+6.w=0; iommu=pt on the kernel's command line", each(pcie), "warn"),
    Check("memlock", "preflight_failed", "ulimit -l unlimited (for good: in /etc/security/limits.conf)", each(memlock)),
    Check("/dev/shm", "preflight_failed",
          "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)", each(shared_memory)),
    Check("ptrace", "preflight_failed",
          "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)", each(tracing)),
    Check("MTU", "mtu_mismatch", "ip link set INTERFACE mtu N, the same on every hop (ip -br link)", alike(_mtu)),
    Check("fabric", "ib_port_down", "ibstat: check the cable of a port that is not active, the rate of one that is",
          alike(_adapters)),
    Check("GPUs", "gpu_lost", "nvidia-smi -L; dmesg | grep -i xid", alike(_gpus)),
    *(Check(name, "env_mismatch", "Install the same image on every node.", alike(_version(library)))
      for name, library in (("driver", "nvidia"), ("CUDA", "cuda"), ("NCCL", "nccl"), ("torch", "torch"))),
)  # fmt: skip


# --- the answers --------------------------------------------------------------------------------------------------


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    return sorted((cell for check in CHECKS for cell in check.cells(scene)), key=lambda cell: ORDER.index(cell.state))


def findings(table: Iterable[CheckCell]) -> tuple[Finding, ...]:
    """One finding for each mistake, over all the nodes that make it."""
    grouped: dict[CheckCell, list[str]] = defaultdict(list)
    for cell in table:
        if cell.kind:
            grouped[cell._replace(node="")].append(cell.node)
    return tuple(
        Finding(
            cell.kind, "critical" if cell.state == "fail" else "warning", READ_ITSELF,
            f"{cell.check} on {', '.join(names)}: {cell.figure}", nodes=tuple(names), advice=cell.remedy,
            evidence=tuple(Evidence(Observer.PROBE, f"preflight {cell.check} on {name}", None, cell.figure)
                           for name in names),
        )
        for cell, names in grouped.items()
    )  # fmt: skip
