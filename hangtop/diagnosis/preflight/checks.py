"""The checks of preflight, and their answers as a table and as findings. To check something else, write a row.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and
IOMMU translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct).
"""

from __future__ import annotations

import ipaddress
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from hangtop.diagnosis.addresses import chosen_interface, names_of
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.scene import UNKNOWN, Alike, Check, CheckCell, NodeAnswer, Preflight, State, texts
from hangtop.diagnosis.rules.nvlink import topology_differs

SHM = 1 << 30
DISK_SHARE, DISK_FREE, INODES_FREE = 0.05, 1 << 30, 10_000
"""Of a file system: share of it, bytes and inodes that should be free."""
DOCKER = ipaddress.ip_network("172.17.0.0/16")
"""The bridge of docker, which no other node reaches."""


# --- the nodes and the way between them ---------------------------------------------------------------------------


def reach(scene: Preflight) -> Iterator[CheckCell]:
    """Whether the node answered, and whether all of it could be read."""
    for name, node in sorted(scene.job.nodes.items()):
        if name in scene.silent:
            why = f"connected, but the checks were not answered: {scene.silent[name]}"
            yield CheckCell("reach", name, "unknown", why)
        elif node.link in ("live", "offline"):
            yield CheckCell("reach", name, "ok", "answers")
        elif node.link == "limited":
            yield CheckCell("reach", name, "warn", node.why, "node_limited")
        else:
            remedy = f"Reach it by hand in the same way, such as: ssh {shlex.quote(name)} true"
            yield CheckCell("reach", name, "fail", node.why or f"is {node.link}", "node_unreachable", remedy)


def master_address(scene: Preflight, node: Node) -> NodeAnswer | None:
    """Whether the master's name has an address here, and one that other nodes can reach."""
    master = scene.master[0]
    answer = scene.answer(node.name, "resolve", master) or scene.answer(node.name, "own_name", master)
    addresses = texts(answer)
    local = next((address for address in addresses if len(scene.job.nodes) > 1 and _is_local(address)), "")
    if local:
        remedy = "Set MASTER_ADDR to the address of the interface that the nodes share (ip -br address)."
        return NodeAnswer(False, f"{master} is {local} here, which no other node can reach", remedy, "preflight_failed")
    if answer is None:
        return None
    remedy = f"Make /etc/hosts and DNS agree: getent hosts {master}"
    return NodeAnswer(bool(addresses), ", ".join(addresses) or f"{master}: {answer.error}", remedy)


def _is_local(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_link_local or parsed in DOCKER


def master_port(scene: Preflight, node: Node) -> NodeAnswer | None:
    """The rendezvous port on the master's node: free, or who holds it."""
    if node.name != scene.master_node:
        return None
    port = scene.master[1]
    use = next((use for use in node.port_uses.values() if use.port == port and use.listening), None)
    tried, instead = scene.answer(node.name, "listen", str(port)), "take another MASTER_PORT"
    if use is not None:
        own = {str(pid) for rank in scene.ranks(node.name) for pid in (rank.process.pid, rank.process.parent)}
        figure = f"{port} is held by {', '.join(use.listeners) or 'a process that may not be seen'}"
        well = any(holder.split(" ")[0] in own for holder in use.listeners)  # it is the job's own
        return NodeAnswer(well, figure, f"{instead}; or: fuser -k {port}/tcp")
    if tried is None:
        return NodeAnswer(None, f"{port} was not tried")
    return NodeAnswer(not tried.error, f"{port}: {tried.error}" if tried.error else f"{port} is free", instead)


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
        slowest = max((answer.value for answer in tried if isinstance(answer.value, float)), default=0.0)
        return NodeAnswer(True, f"{len(tried)} open, slowest {slowest * 1000:.1f} ms") if tried else None
    text = listed([f"{answer.subject}: {answer.error}" for answer in broken], 4)
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


def gpu_use(scene: Preflight, node: Node) -> NodeAnswer | None:
    """GPUs are idle unless the job's own ranks are on them."""
    mine = {rank.process.pid for rank in scene.ranks(node.name)}
    used = [
        f"GPU {gpu.index}: pid {process.pid} {process.name} ({size(process.memory or 0)})"
        for gpu in node.gpus.values() for process in gpu.processes if process.pid not in mine
    ]  # fmt: skip
    return NodeAnswer(not used, listed(used, 4) or "no stranger on them") if node.gpus else None


def topology(scene: Preflight) -> Iterator[CheckCell]:
    """``nvidia-smi topo -m``: wired as most nodes with the same devices."""
    odd = {finding.nodes[0]: finding for finding in topology_differs(scene.job)}
    for node in scene.nodes():
        if finding := odd.get(node.name):
            yield CheckCell("topology", node.name, "warn", finding.evidence[0].text, finding.kind, finding.advice)
        elif node.topology is not None:
            yield CheckCell("topology", node.name, "ok", "as most nodes")


def pcie(scene: Preflight, node: Node) -> NodeAnswer | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Bridges are read by root alone.
    """
    found = scene.answer(node.name, "pcie")
    wrong = texts(found)
    if found is None or (found.error and not wrong):
        return None if found is None else NodeAnswer(None, found.error)
    return NodeAnswer(not wrong, listed(wrong, 3) or "no ACS redirect, no translation")


def memlock(scene: Preflight, node: Node) -> NodeAnswer:
    """Locked memory (-1 is unlimited) of the node's ranks, else of a login: InfiniBand registers its buffers.

    A node without an adapter needs none.
    """
    own = [rank.process.memlock_limit for rank in scene.ranks(node.name)]
    known = [limit for limit in own if limit is not None] or scene.numbers(node.name, "limit", "memlock")[:1]
    low = min((limit for limit in known if limit >= 0), default=-1)
    return NodeAnswer(low < 0 or not node.ports, "unlimited" if low < 0 else f"{low} bytes") if known else UNKNOWN


def shared_memory(scene: Preflight, node: Node) -> NodeAnswer:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    found = scene.numbers(node.name, "disk", "/dev/shm")
    if not found:
        return UNKNOWN
    well = found[0] >= SHM and found[1] >= SHM // 4
    return NodeAnswer(well, f"{size(found[1])} free of {size(found[0])}{'' if well else f'; wanted {size(SHM)}'}")


def disks(scene: Preflight, node: Node) -> NodeAnswer:
    """Room and inodes where the job writes."""
    room = {disk.path: (disk.total, disk.free, disk.free_inodes) for disk in node.disks.values() if disk.role != "shm"}
    for path in {answer.subject for answer in scene.all(node.name, "disk")} - {"/dev/shm", *room}:
        total, free, inodes = scene.numbers(node.name, "disk", path) or (0, 0, 0)
        room[path] = (total, free, inodes)
    full = [
        f"{path}: {size(free)} free of {size(total)}, {inodes} inodes free"
        for path, (total, free, inodes) in sorted(room.items())
        if (total and free < max(DISK_FREE, total * DISK_SHARE)) or 0 < (inodes or 0) < INODES_FREE
    ]
    least = min(room, key=lambda path: room[path][1], default="")
    return NodeAnswer(not full, "; ".join(full) or f"{size(room[least][1])} free at {least}") if room else UNKNOWN


def tracing(scene: Preflight, node: Node) -> NodeAnswer:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    values = scene.numbers(node.name, "ptrace")
    if len(values) != 3:
        return UNKNOWN
    scope, root, capable = values
    if scope and not capable and not (root and scope < 3):
        return NodeAnswer(False, f"ptrace_scope is {scope} and this login is not root")
    foreign = [rank for rank in scene.ranks(node.name) if node.hello and rank.process.uid != node.hello.uid]
    if foreign and not (capable or root):
        owner = foreign[0].process.user or str(foreign[0].process.uid)
        return NodeAnswer(False, f"the ranks belong to {owner}", f"log in as {owner}, or as root")
    return NodeAnswer(True, "as root" if root else "CAP_SYS_PTRACE" if capable else "scope 0")


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
    """The ranks' own version of a library, else the node's."""

    def value(scene: Preflight, node: Node) -> str | None:
        own = [rank.process.versions[name] for rank in scene.ranks(node.name) if name in rank.process.versions]
        return own[0] if own else node.host.versions.get(name) if node.host else None

    return value


IMAGE = "Install the same image on every node."
VERSIONS = (("driver", "nvidia"), ("CUDA", "cuda"), ("NCCL", "nccl"), ("torch", "torch"))
CHECKS: tuple[Callable[[Preflight], Iterator[CheckCell]], ...] = (
    reach,
    Check("address", "", master_address, kind="path_blocked"),
    Check("port", "", master_port),
    topology,
    Check("loopback", "ip link set lo up; nft list ruleset", loopback),
    Check("paths", "", paths, kind="path_blocked"),
    Check("GPU faults", "Drain the node; nvidia-smi --gpu-reset or restart it.", gpu_faults, kind="gpu_lost"),
    Check("GPU use", "nvidia-smi; end what an earlier run left", gpu_use, "warn", "zombie_process"),
    Check("PCIe", "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE ECAP_ACS+6.w=0; iommu=pt on "
          "the kernel's command line", pcie, "warn"),
    Check("memlock", "ulimit -l unlimited (for good: in /etc/security/limits.conf)", memlock),
    Check("/dev/shm", "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)", shared_memory),
    Check("disk", "df -h; df -i; clear old checkpoints and logs", disks, "warn"),
    Check("ptrace", "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)", tracing),
    Alike("MTU", "mtu_mismatch", "ip link set INTERFACE mtu N, the same on every hop (ip -br link)", _mtu),
    Alike("fabric", "ib_port_down", "ibstat: check the cable of a port that is not active, the rate of one that is",
          _adapters, "fabric"),
    Alike("GPUs", "gpu_lost", "nvidia-smi -L; dmesg | grep -i xid", _gpus, "gpus"),
    *(Alike(name, "env_mismatch", IMAGE, _version(library)) for name, library in VERSIONS),
)  # fmt: skip


# --- the answers --------------------------------------------------------------------------------------------------

ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""
_SEVERITY: dict[State, Severity] = {"fail": "critical", "warn": "warning"}


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    found = [cell for check in CHECKS for cell in sorted(check(scene))]
    return sorted(found, key=lambda cell: ORDER.index(cell.state))


def findings(table: Iterable[CheckCell]) -> tuple[Finding, ...]:
    """One finding for each mistake, over all the nodes that make it."""
    grouped: dict[tuple[State, str, str, str], list[CheckCell]] = defaultdict(list)
    for cell in table:
        if cell.kind and cell.state in _SEVERITY:
            grouped[cell.state, cell.kind, cell.check, cell.figure].append(cell)
    return tuple(
        Finding(
            kind, _SEVERITY[state], 0.95, f"{check} on {', '.join(cell.node for cell in same)}: {figure}",
            nodes=tuple(cell.node for cell in same), advice=same[0].remedy,
            evidence=tuple(Evidence(Observer.PROBE, f"preflight {check} on {cell.node}", None, cell.figure)
                           for cell in same),
        )
        for (state, kind, check, figure), same in grouped.items()
    )  # fmt: skip
