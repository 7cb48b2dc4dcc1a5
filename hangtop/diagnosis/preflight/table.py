"""All checks of preflight, those of one node by itself among them, and their answers as a table and as findings.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and
IOMMU translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct).
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable

from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.compared import ALIKE, addresses, meeting_port, topology
from hangtop.diagnosis.preflight.scene import (
    UNTOLD,
    Answers,
    CheckAnswer,
    CheckCell,
    Preflight,
    State,
    texts,
)

SHM = 1 << 30
DISK_SHARE, DISK_FREE, INODES_FREE = 0.05, 1 << 30, 10_000
"""Of a file system: share of it, bytes and inodes that should be free."""

Check = Callable[[Preflight], Answers]
NodeCheck = Callable[[Preflight, Node], CheckAnswer | None]


def reach(scene: Preflight) -> Answers:
    """Whether the node answered, and whether all of it could be read."""
    for name, node in sorted(scene.job.nodes.items()):
        if name in scene.silent:
            yield name, CheckAnswer("unknown", f"connected, but the checks were not answered: {scene.silent[name]}")
        elif node.link in ("live", "offline"):
            yield name, CheckAnswer("ok", "answers")
        elif node.link == "limited":
            yield name, CheckAnswer("warn", node.why, "node_limited")
        else:
            remedy = f"Try by hand: {scene.by_hand.replace('NODE', shlex.quote(name))}"
            yield name, CheckAnswer("fail", node.why or f"is {node.link}", "node_unreachable", remedy)


def loopback(scene: Preflight, node: Node) -> CheckAnswer:
    """A TCP connect to itself: torchrun's agent and its ranks talk that way."""
    found = scene.answer(node.name, "loopback")
    if found is None or not found.error:
        return CheckAnswer("unknown", UNTOLD) if found is None else CheckAnswer("ok", "connects")
    by, remedy = firewall_of(scene.answers, [node.name]) or ("", "ip link set lo up; nft list ruleset")
    figure = f"{found.error}; {by}" if by else found.error
    return CheckAnswer("fail", figure, "loopback_blocked", remedy.replace("SUBNET", "127.0.0.0/8"))


def paths(scene: Preflight, node: Node) -> CheckAnswer | None:
    """TCP from every node to the master's port, and between the master and an ephemeral port of every node."""
    tried = scene.all(node.name, "connect")
    broken = [answer for answer in tried if answer.error]
    if not broken:
        slowest = max((answer.value for answer in tried if isinstance(answer.value, float)), default=0.0)
        return CheckAnswer("ok", f"{len(tried)} open, slowest {slowest * 1000:.1f} ms") if tried else None
    text = listed([f"{answer.subject}: {answer.error}" for answer in broken], 4)
    host, _, port = broken[0].subject.rpartition(":")
    peers = [name for name, other in sorted(scene.job.nodes.items()) if host in names_of(other)]
    by, remedy = firewall_of(scene.answers, [*peers, node.name]) or (
        "", f"Look for a firewall (nft list ruleset) and at the route (ip route get {host}); then nc -vz {host} {port}"
    )  # fmt: skip
    return CheckAnswer("fail", f"{text}; {by}" if by else text, "path_blocked", remedy)


def gpu_use(scene: Preflight, node: Node) -> CheckAnswer | None:
    """GPUs: none lost, and idle unless the job's own ranks are on them."""
    if lost := [f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault]:
        remedy = "Drain the node; nvidia-smi --gpu-reset or restart it."
        return CheckAnswer("fail", "; ".join(lost), "gpu_lost", remedy)
    mine = {rank.process.pid for rank in scene.ranks(node.name)}
    used = [
        f"GPU {gpu.index}: pid {process.pid} {process.name} ({size(process.memory or 0)})"
        for gpu in node.gpus.values() for process in gpu.processes if process.pid not in mine
    ]  # fmt: skip
    if used:
        return CheckAnswer("warn", listed(used, 4), "zombie_process", "nvidia-smi; end what an earlier run left")
    return CheckAnswer("ok", "no stranger on them") if node.gpus else None


def pcie(scene: Preflight, node: Node) -> CheckAnswer | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Bridges are read by root alone.
    """
    found = scene.answer(node.name, "pcie")
    if wrong := texts(found):
        return CheckAnswer(
            "warn", listed(wrong, 3), "pcie_redirect",
            "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE ECAP_ACS+6.w=0; iommu=pt on the "
            "kernel's command line",
        )  # fmt: skip
    if found is None:
        return None
    return CheckAnswer("unknown", found.error) if found.error else CheckAnswer("ok", "no ACS redirect, no translation")


def memlock(scene: Preflight, node: Node) -> CheckAnswer:
    """Locked memory (-1 is unlimited) of the node's ranks, else of a login: InfiniBand registers its buffers.

    A node without an adapter needs none.
    """
    own = [rank.process.memlock_limit for rank in scene.ranks(node.name)]
    known = [limit for limit in own if limit is not None] or scene.numbers(node.name, "limit", "memlock")[:1]
    if not known:
        return CheckAnswer("unknown", UNTOLD)
    low = min((limit for limit in known if limit >= 0), default=-1)
    if low < 0 or not node.ports:
        return CheckAnswer("ok", "unlimited" if low < 0 else f"{low}, without an adapter")
    remedy = "ulimit -l unlimited (for good: in /etc/security/limits.conf)"
    return CheckAnswer("fail", f"{low} bytes; wanted unlimited", "memlock_low", remedy)


def shared_memory(scene: Preflight, node: Node) -> CheckAnswer:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    found = scene.numbers(node.name, "disk", "/dev/shm")
    if not found:
        return CheckAnswer("unknown", UNTOLD)
    text = f"{size(found[1])} free of {size(found[0])}"
    if found[0] >= SHM and found[1] >= SHM // 4:
        return CheckAnswer("ok", text)
    return CheckAnswer(
        "fail", f"{text}; wanted {size(SHM)}", "shm_small",
        "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)",
    )  # fmt: skip


def disks(scene: Preflight, node: Node) -> CheckAnswer:
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
    if full:
        return CheckAnswer("warn", "; ".join(full), "disk_full", "df -h; df -i; clear old checkpoints and logs")
    least = min(room, key=lambda path: room[path][1], default="")
    return CheckAnswer("ok", f"{size(room[least][1])} free at {least}") if room else CheckAnswer("unknown", UNTOLD)


def tracing(scene: Preflight, node: Node) -> CheckAnswer:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    values = scene.numbers(node.name, "ptrace")
    if len(values) != 3:
        return CheckAnswer("unknown", UNTOLD)
    scope, root, capable = values
    owners = {rank.process.user or str(rank.process.uid) for rank in scene.ranks(node.name)
              if node.hello and rank.process.uid != node.hello.uid}  # fmt: skip
    if capable or (root and scope < 3):
        return CheckAnswer("ok", "as root" if root else "CAP_SYS_PTRACE")
    if scope:
        return CheckAnswer(
            "fail", f"ptrace_scope is {scope} and this login is not root", "ptrace_denied",
            "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)",
        )  # fmt: skip
    if owners:
        names = listed(sorted(owners))
        return CheckAnswer("fail", f"the ranks belong to {names}", "ptrace_denied", f"log in as {names}, or as root")
    return CheckAnswer("ok", "scope 0")


def each(check: NodeCheck) -> Check:
    """A check of one node, asked of every node that answers."""

    def checked(scene: Preflight) -> Answers:
        for node in scene.nodes():
            if (answer := check(scene, node)) is not None:
                yield node.name, answer

    return checked


CHECKS: tuple[tuple[str, Check], ...] = (
    ("reach", reach),
    ("loopback", each(loopback)),
    ("address", addresses),
    ("port", meeting_port),
    ("paths", each(paths)),
    *((row.check, row.compare) for row in ALIKE),
    ("GPU use", each(gpu_use)),
    ("topology", topology),
    ("PCIe", each(pcie)),
    ("memlock", each(memlock)),
    ("/dev/shm", each(shared_memory)),
    ("disk", each(disks)),
    ("ptrace", each(tracing)),
)
"""In the order in which they are shown. A new check is one function and one line here."""
ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""
_SEVERITY: dict[State, Severity] = {"fail": "critical", "warn": "warning"}


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    found = [CheckCell(name, node, *answer) for name, check in CHECKS for node, answer in sorted(check(scene))]
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
            nodes=tuple(cell.node for cell in same),
            evidence=tuple(Evidence(
                Observer.PROBE, f"preflight {check} on {cell.node}", None, cell.figure
            ) for cell in same),
            advice=same[0].remedy,
        )
        for (state, kind, check, figure), same in grouped.items()
    )  # fmt: skip
