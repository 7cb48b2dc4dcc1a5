"""Checks of one node by itself: limits, storage, tracing, clock.

Thresholds: NCCL's manual asks for unlimited memlock under InfiniBand and at least 1 GiB of /dev/shm
(runtime_and_mpi_issues, networking_troubleshooting); 144 ranks were seen to open more than 32 K files a process there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from hangtop.diagnosis.preflight.scene import UNTOLD, CheckCell, Preflight, numbers, size

OPEN_FILES = 65_536
SHM = 1 << 30
DISK_SHARE = 0.05
"""Share of a file system that should be free."""
DISK_FREE = 1 << 30
INODES_FREE = 10_000
SKEW = 1.0
"""Seconds: more, and logs of two nodes cannot be put in one order, and certificates and Kerberos begin to fail."""


def reachable(scene: Preflight) -> Iterator[CheckCell]:
    """Whether the node answered, and whether all of it could be read."""
    check = "reach" if scene.way else "ssh"
    for name, node in sorted(scene.job.nodes.items()):
        if name in scene.silent:
            yield CheckCell(
                check, name, "unknown", f"connected, but the checks were not answered: {scene.silent[name]}"
            )
        elif node.link in ("live", "offline"):
            yield CheckCell(check, name, "ok", "answers")
        elif node.link == "limited":
            yield CheckCell(check, name, "warn", node.why, "node_limited")
        else:
            why = node.why or f"is {node.link}"
            remedy = (
                f"Try by hand what --via says: {scene.way}"
                if scene.way
                else f"Try: {scene.ssh} {shlex.quote(name)} true"
            )
            yield CheckCell(check, name, "fail", why, "node_unreachable", remedy)


def open_files(scene: Preflight) -> Iterator[CheckCell]:
    """Open files that a rank may have: its own limit if it runs, else the login's."""
    for node in scene.nodes():
        yield _limit(
            scene, node.name, "nofile", "open files", OPEN_FILES, "open_files_low",
            "ulimit -n 1048576 (for good: nofile in /etc/security/limits.conf, or LimitNOFILE= of the service)",
        )  # fmt: skip


def memlock(scene: Preflight) -> Iterator[CheckCell]:
    """Locked memory: InfiniBand registers all its buffers. A node without an adapter needs none."""
    for node in scene.nodes():
        if node.ports:
            yield _limit(
                scene, node.name, "memlock", "memlock", None, "memlock_low",
                "ulimit -l unlimited (for good: memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity)",
            )  # fmt: skip
        elif numbers(scene.answer(node.name, "limit", "memlock")):
            yield CheckCell("memlock", node.name, "ok", "no InfiniBand here")


def _limit(scene: Preflight, node: str, name: str, check: str, least: int | None, kind: str, remedy: str) -> CheckCell:
    """Judge a limit; ``least`` None asks for unlimited. Not a low limit, but the lowest of the node's ranks counts."""
    ranks = scene.ranks(node)
    own = [rank.process.open_files_limit if name == "nofile" else rank.process.memlock_limit for rank in ranks]
    known = [value for value in own if value is not None]
    login = numbers(scene.answer(node, "limit", name))
    value = min(known, key=lambda limit: float("inf") if limit < 0 else limit) if known else login[0] if login else None
    if value is None:
        return CheckCell(check, node, "unknown", UNTOLD)
    whose = "of its ranks" if known else "of a login"
    text = "unlimited" if value < 0 else size(value) if name == "memlock" else str(value)
    if value < 0 or (least is not None and value >= least):
        return CheckCell(check, node, "ok", f"{text} {whose}")
    wanted = "unlimited" if least is None else f"{least} or more"
    state = "fail" if name == "memlock" else "warn"
    return CheckCell(
        check, node, "fail" if state == "fail" else "warn", f"{text} {whose}; wanted {wanted}", kind, remedy
    )


def shared_memory(scene: Preflight) -> Iterator[CheckCell]:
    """Size of /dev/shm: NCCL and data workers pass tensors through it; containers get 64 MiB unless told."""
    for node in scene.nodes():
        found = numbers(scene.answer(node.name, "disk", "/dev/shm"))
        if not found:
            yield CheckCell("/dev/shm", node.name, "unknown", scene.unread(node.name))
        elif found[0] < SHM or found[1] < SHM // 4:
            yield CheckCell(
                "/dev/shm", node.name, "fail", f"{size(found[1])} free of {size(found[0])}; wanted {size(SHM)}",
                "shm_small",
                "mount -o remount,size=50% /dev/shm (container: --shm-size=16g or --ipc=host)",
            )  # fmt: skip
        else:
            yield CheckCell("/dev/shm", node.name, "ok", f"{size(found[1])} free of {size(found[0])}")


def disks(scene: Preflight) -> Iterator[CheckCell]:
    """Room and inodes where the job writes."""
    for node in scene.nodes():
        room: dict[str, tuple[int, int, int | None]] = {
            disk.path: (disk.total, disk.free, disk.free_inodes) for disk in node.disks if disk.role != "shm"
        }
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
            yield CheckCell(
                "disk", node.name, "warn", "; ".join(full), "disk_full", "df -h; df -i; clear old checkpoints and logs"
            )
        elif room:
            least = min(room, key=lambda path: room[path][1])
            yield CheckCell("disk", node.name, "ok", f"{size(room[least][1])} free at {least}")
        else:
            yield CheckCell("disk", node.name, "unknown", scene.unread(node.name))


def tracing(scene: Preflight) -> Iterator[CheckCell]:
    """Whether stacks can be taken: root or CAP_SYS_PTRACE may trace all, others only where Yama's scope is 0."""
    for node in scene.nodes():
        found = scene.answer(node.name, "ptrace")
        values = numbers(found)
        if len(values) != 3:
            yield CheckCell("ptrace", node.name, "unknown", UNTOLD)
            continue
        scope, root, capable = values
        if capable or (root and scope < 3):
            yield CheckCell("ptrace", node.name, "ok", "as root" if root else "CAP_SYS_PTRACE")
        elif scope == 0:
            others = [rank for rank in scene.ranks(node.name) if node.hello and rank.process.uid != node.hello.uid]
            if others:
                who = others[0].process.user or str(others[0].process.uid)
                yield CheckCell(
                    "ptrace",
                    node.name,
                    "fail",
                    f"the ranks belong to {who}",
                    "ptrace_denied",
                    f"log in as {who}, or as root",
                )
            else:
                yield CheckCell("ptrace", node.name, "ok", "scope 0")
        else:
            yield CheckCell(
                "ptrace", node.name, "fail", f"ptrace_scope is {scope} and this login is not root", "ptrace_denied",
                "sudo sysctl kernel.yama.ptrace_scope=0 (or --sudo; container: --cap-add SYS_PTRACE)",
            )  # fmt: skip


def clocks(scene: Preflight) -> Iterator[CheckCell]:
    """Clocks against each other, not against this machine's, which may itself be wrong."""
    known = sorted(scene.offsets.values())
    if not known:
        return
    middle = known[len(known) // 2]
    for node in scene.nodes():
        offset = scene.offsets.get(node.name)
        if offset is None:
            yield CheckCell("clock", node.name, "unknown", UNTOLD)
        elif abs(offset - middle) > SKEW:
            yield CheckCell(
                "clock", node.name, "warn", f"{offset - middle:+.1f} s against the other nodes", "clock_skew",
                "chronyc makestep (or: systemctl restart systemd-timesyncd)",
            )  # fmt: skip
        else:
            yield CheckCell("clock", node.name, "ok", f"{offset - middle:+.2f} s")
