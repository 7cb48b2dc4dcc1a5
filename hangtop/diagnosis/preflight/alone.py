"""Checks of one node by itself: whether it answers, limits, storage, tracing, PCIe.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand, at least 1 GiB of /dev/shm, and for ACS and
IOMMU translation to be off (runtime_and_mpi_issues, networking_troubleshooting, gpu_direct); 144 ranks were seen to
open more than 32 K files a process there.
"""

from __future__ import annotations

import shlex

from hangtop.diagnosis.firewall import firewall_of
from hangtop.diagnosis.job import Node
from hangtop.diagnosis.phrasing import listed, size
from hangtop.diagnosis.preflight.scene import UNTOLD, Answers, CheckAnswer, Preflight, numbers, texts

OPEN_FILES = 65_536
SHM = 1 << 30
DISK_SHARE = 0.05
"""Share of a file system that should be free."""
DISK_FREE = 1 << 30
INODES_FREE = 10_000


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
    by, remedy = firewall_of(scene.answers, [node.name]) or (
        "", "ip link set lo up; look for firewall rules on lo (nft list ruleset)"
    )  # fmt: skip
    figure = f"{found.error}; {by}" if by else found.error
    return CheckAnswer("fail", figure, "loopback_blocked", remedy.replace("SUBNET", "127.0.0.0/8"))


def open_files(scene: Preflight, node: Node) -> CheckAnswer:
    """Open files that a rank may have: its own limit if it runs, else the login's."""
    limit, whose = _limit(scene, node, "nofile", [rank.process.open_files_limit for rank in scene.ranks(node.name)])
    if limit is None or limit < 0 or limit >= OPEN_FILES:
        return _well(limit, whose)
    return CheckAnswer(
        "warn", f"{limit} {whose}; wanted {OPEN_FILES} or more", "open_files_low",
        "ulimit -n 1048576 (for good: nofile in /etc/security/limits.conf, or LimitNOFILE= of the service)",
    )  # fmt: skip


def memlock(scene: Preflight, node: Node) -> CheckAnswer | None:
    """Locked memory: InfiniBand registers all its buffers. A node without an adapter needs none."""
    limit, whose = _limit(scene, node, "memlock", [rank.process.memlock_limit for rank in scene.ranks(node.name)])
    if not node.ports:
        asked = numbers(scene.answer(node.name, "limit", "memlock"))
        return CheckAnswer("ok", "no InfiniBand here") if asked else None
    if limit is None or limit < 0:
        return _well(limit, whose)
    return CheckAnswer(
        "fail", f"{size(limit)} {whose}; wanted unlimited", "memlock_low",
        "ulimit -l unlimited (for good: memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity)",
    )  # fmt: skip


def _limit(scene: Preflight, node: Node, name: str, own: list[int | None]) -> tuple[int | None, str]:
    """A limit (-1 for unlimited) and whose it is: the lowest of the node's ranks, else that of a login."""
    known = [value for value in own if value is not None]
    if known:
        return min(known, key=lambda limit: float("inf") if limit < 0 else limit), "of its ranks"
    login = numbers(scene.answer(node.name, "limit", name))
    return (login[0] if login else None), "of a login"


def _well(limit: int | None, whose: str) -> CheckAnswer:
    if limit is None:
        return CheckAnswer("unknown", UNTOLD)
    return CheckAnswer("ok", f"{'unlimited' if limit < 0 else limit} {whose}")


def shared_memory(scene: Preflight, node: Node) -> CheckAnswer:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    found = numbers(scene.answer(node.name, "disk", "/dev/shm"))
    if not found:
        return scene.unread(node.name)
    text = f"{size(found[1])} free of {size(found[0])}"
    if found[0] >= SHM and found[1] >= SHM // 4:
        return CheckAnswer("ok", text)
    return CheckAnswer(
        "fail", f"{text}; wanted {size(SHM)}", "shm_small",
        "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)",
    )  # fmt: skip


def disks(scene: Preflight, node: Node) -> CheckAnswer:
    """Room and inodes where the job writes."""
    room = {disk.path: (disk.total, disk.free, disk.free_inodes) for disk in node.disks if disk.role != "shm"}
    for answer in scene.all(node.name, "disk"):
        found = numbers(answer)
        if len(found) == 3 and answer.subject != "/dev/shm":
            room.setdefault(answer.subject, (found[0], found[1], found[2]))
    full = []
    for path, (total, free, inodes) in sorted(room.items()):
        if total and (free < DISK_FREE or free < total * DISK_SHARE):
            full.append(f"{path}: {size(free)} free of {size(total)}")
        elif inodes is not None and 0 < inodes < INODES_FREE:
            full.append(f"{path}: {inodes} inodes free")
    if full:
        return CheckAnswer("warn", "; ".join(full), "disk_full", "df -h; df -i; clear old checkpoints and logs")
    if not room:
        return scene.unread(node.name)
    least = min(room, key=lambda path: room[path][1])
    return CheckAnswer("ok", f"{size(room[least][1])} free at {least}")


def tracing(scene: Preflight, node: Node) -> CheckAnswer:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    values = numbers(scene.answer(node.name, "ptrace"))
    if len(values) != 3:
        return CheckAnswer("unknown", UNTOLD)
    scope, root, capable = values
    if capable or (root and scope < 3):
        return CheckAnswer("ok", "as root" if root else "CAP_SYS_PTRACE")
    if scope:
        return CheckAnswer(
            "fail", f"ptrace_scope is {scope} and this login is not root", "ptrace_denied",
            "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)",
        )  # fmt: skip
    owners = {rank.process.user or str(rank.process.uid) for rank in scene.ranks(node.name)
              if node.hello and rank.process.uid != node.hello.uid}  # fmt: skip
    if not owners:
        return CheckAnswer("ok", "scope 0")
    names = listed(sorted(owners))
    return CheckAnswer("fail", f"the ranks belong to {names}", "ptrace_denied", f"log in as {names}, or as root")


def pcie(scene: Preflight, node: Node) -> CheckAnswer | None:
    """PCIe ACS on bridges above GPUs, and IOMMU translation: both send traffic between GPUs through the CPU.

    NCCL may then hang at its first use of P2P, or read wrong data. Bridges are read by root alone.
    """
    found = scene.answer(node.name, "pcie")
    if found is None:
        return None
    if wrong := texts(found):
        return CheckAnswer(
            "warn", listed(wrong, 3), "pcie_redirect",
            "Outside virtual machines: ACS off in the BIOS or by setpci -s BRIDGE ECAP_ACS+6.w=0; iommu=pt on the "
            "kernel's command line",
        )  # fmt: skip
    state = CheckAnswer("ok", "no ACS redirect, no IOMMU translation")
    return CheckAnswer("unknown", found.error) if found.error else state
