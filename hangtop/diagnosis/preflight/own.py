"""Checks of one node by itself: each is a row with a function that measures.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and
IOMMU translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.scene import UNTOLD, CheckCell, Preflight, State, texts

SHM = 1 << 30
DISK_SHARE, DISK_FREE, INODES_FREE = 0.05, 1 << 30, 10_000
"""Of a file system: share of it, bytes and inodes that should be free."""


class Measured(NamedTuple):
    """What a check found on a node."""

    well: bool | None
    """None: not known."""
    figure: str
    remedy: str = ""
    """Instead of the check's own."""


UNKNOWN = Measured(None, UNTOLD)


class NodeCheck(NamedTuple):
    """A check of one node by itself."""

    check: str
    kind: str
    remedy: str
    measure: Callable[[Preflight, Node], Measured | None]
    """None where the check does not apply."""
    state: State = "fail"
    """Of a node that is not well."""

    def cells(self, scene: Preflight) -> Iterator[CheckCell]:
        """The answers of all nodes that can be asked."""
        for node in scene.nodes():
            found = self.measure(scene, node)
            if found is not None and found.well is False:
                remedy = found.remedy or self.remedy
                yield CheckCell(self.check, node.name, self.state, found.figure, self.kind, remedy)
            elif found is not None:
                yield CheckCell(self.check, node.name, "ok" if found.well else "unknown", found.figure)


def loopback(scene: Preflight, node: Node) -> Measured:
    """A TCP connect to itself: torchrun's agent and its ranks talk that way."""
    found = scene.answer(node.name, "loopback")
    if found is None or not found.error:
        return UNKNOWN if found is None else Measured(True, "connects")
    by, remedy = firewall_of(scene.answers, [node.name]) or ("", "")
    figure = f"{found.error}; {by}" if by else found.error
    return Measured(False, figure, remedy.replace("SUBNET", "127.0.0.0/8"))


def paths(scene: Preflight, node: Node) -> Measured | None:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    tried = scene.all(node.name, "connect")
    broken = [answer for answer in tried if answer.error]
    if not broken:
        slowest = max((answer.value for answer in tried if isinstance(answer.value, float)), default=0.0)
        return Measured(True, f"{len(tried)} open, slowest {slowest * 1000:.1f} ms") if tried else None
    text = listed([f"{answer.subject}: {answer.error}" for answer in broken], 4)
    host, _, port = broken[0].subject.rpartition(":")
    peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
    by, remedy = firewall_of(scene.answers, [*peers, node.name]) or (
        "", f"Look for a firewall (nft list ruleset) and at the route (ip route get {host}); then nc -vz {host} {port}"
    )  # fmt: skip
    return Measured(False, f"{text}; {by}" if by else text, remedy)


def gpu_faults(_: Preflight, node: Node) -> Measured | None:
    """GPUs that nvidia-smi calls lost."""
    lost = [f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault]
    return Measured(not lost, "; ".join(lost) or "none") if node.gpus else None


def gpu_use(scene: Preflight, node: Node) -> Measured | None:
    """GPUs are idle unless the job's own ranks are on them."""
    mine = {rank.process.pid for rank in scene.ranks(node.name)}
    used = [
        f"GPU {gpu.index}: pid {process.pid} {process.name} ({size(process.memory or 0)})"
        for gpu in node.gpus.values() for process in gpu.processes if process.pid not in mine
    ]  # fmt: skip
    return Measured(not used, listed(used, 4) or "no stranger on them") if node.gpus else None


def pcie(scene: Preflight, node: Node) -> Measured | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Bridges are read by root alone.
    """
    found = scene.answer(node.name, "pcie")
    if found is None:
        return None
    wrong = texts(found)
    if found.error and not wrong:
        return Measured(None, found.error)
    return Measured(not wrong, listed(wrong, 3) or "no ACS redirect, no translation")


def memlock(scene: Preflight, node: Node) -> Measured:
    """Locked memory (-1 is unlimited) of the node's ranks, else of a login: InfiniBand registers its buffers.

    A node without an adapter needs none.
    """
    own = [rank.process.memlock_limit for rank in scene.ranks(node.name)]
    known = [limit for limit in own if limit is not None] or scene.numbers(node.name, "limit", "memlock")[:1]
    if not known:
        return UNKNOWN
    low = min((limit for limit in known if limit >= 0), default=-1)
    return Measured(low < 0 or not node.ports, "unlimited" if low < 0 else f"{low} bytes")


def shared_memory(scene: Preflight, node: Node) -> Measured:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    found = scene.numbers(node.name, "disk", "/dev/shm")
    if not found:
        return UNKNOWN
    well = found[0] >= SHM and found[1] >= SHM // 4
    return Measured(well, f"{size(found[1])} free of {size(found[0])}{'' if well else f'; wanted {size(SHM)}'}")


def disks(scene: Preflight, node: Node) -> Measured:
    """Room and inodes where the job writes."""
    room = {disk.path: (disk.total, disk.free, disk.free_inodes) for disk in node.disks.values() if disk.role != "shm"}
    for path in {answer.subject for answer in scene.all(node.name, "disk")} - {"/dev/shm"}:
        found = scene.numbers(node.name, "disk", path)
        if len(found) == 3:
            room.setdefault(path, (found[0], found[1], found[2]))
    full = [
        f"{path}: {size(free)} free of {size(total)}, {inodes} inodes free"
        for path, (total, free, inodes) in sorted(room.items())
        if (total and (free < DISK_FREE or free < total * DISK_SHARE)) or 0 < (inodes or 0) < INODES_FREE
    ]
    least = min(room, key=lambda path: room[path][1], default="")
    return Measured(not full, "; ".join(full) or f"{size(room[least][1])} free at {least}") if room else UNKNOWN


def tracing(scene: Preflight, node: Node) -> Measured:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    values = scene.numbers(node.name, "ptrace")
    if len(values) != 3:
        return UNKNOWN
    scope, root, capable = values
    owners = {rank.process.user or str(rank.process.uid) for rank in scene.ranks(node.name)
              if node.hello and rank.process.uid != node.hello.uid}  # fmt: skip
    if capable or (root and scope < 3):
        return Measured(True, "as root" if root else "CAP_SYS_PTRACE")
    if scope:
        return Measured(False, f"ptrace_scope is {scope} and this login is not root")
    names = listed(sorted(owners))
    figure = f"the ranks belong to {names}" if names else "scope 0"
    return Measured(not owners, figure, f"log in as {names}, or as root")


NODE_CHECKS = (
    NodeCheck("loopback", "loopback_blocked", "ip link set lo up; nft list ruleset", loopback),
    NodeCheck("paths", "path_blocked", "", paths),
    NodeCheck("GPU faults", "gpu_lost", "Drain the node; nvidia-smi --gpu-reset or restart it.", gpu_faults),
    NodeCheck("GPU use", "zombie_process", "nvidia-smi; end what an earlier run left", gpu_use, "warn"),
    NodeCheck("PCIe", "pcie_redirect", "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE "
              "ECAP_ACS+6.w=0; iommu=pt on the kernel's command line", pcie, "warn"),
    NodeCheck("memlock", "memlock_low", "ulimit -l unlimited (for good: in /etc/security/limits.conf)", memlock),
    NodeCheck("/dev/shm", "shm_small", "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or "
              "--ipc=host)", shared_memory),
    NodeCheck("disk", "disk_full", "df -h; df -i; clear old checkpoints and logs", disks, "warn"),
    NodeCheck("ptrace", "ptrace_denied", "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add "
              "SYS_PTRACE)", tracing),
)  # fmt: skip
"""To check something else of each node, write a function and a row."""
