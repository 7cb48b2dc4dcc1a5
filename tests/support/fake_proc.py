"""A folder that looks like /proc to the sources: processes with the files that the kernel would give them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

PYTHON = "/opt/venv/bin/python3.11"

STATUS = """\
Name:\t{comm}
Uid:\t{uid}\t{uid}\t{uid}\t{uid}
NSpid:\t{pid}\t{inner}
Threads:\t3
voluntary_ctxt_switches:\t5
nonvoluntary_ctxt_switches:\t7
"""


class FakeProc:
    """Processes below ``root``; each ``add`` writes one anew."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.link(root / "self" / "ns" / "mnt", "mnt:[1]")
        self.add(1, parent=0, argv=["/sbin/init"], executable="/usr/lib/systemd/systemd", comm="systemd")

    @staticmethod
    def link(path: Path, target: str) -> None:
        """Make a symbolic link, whatever it may point at."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def add(
        self,
        pid: int,
        *,
        parent: int = 1,
        env: Mapping[str, str] | None = None,
        argv: Sequence[str] = (PYTHON, "train.py"),
        executable: str = PYTHON,
        comm: str = "python3",
        state: str = "S",
        cpu: tuple[int, int] = (0, 0),
        rss: int = 10,
        inner: int | None = None,
        uid: int = 0,
        cgroup: str = "0::/user.slice\n",
        mapped: Sequence[str] = (),
        threads: Sequence[str] = (),
        left: int = 3,
        children: Sequence[int] = (),
        ended: int = 0,
    ) -> Path:
        """Write one process: threads ``left``, how it ``ended``; returns its folder."""
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        tail = " ".join([*["0"] * 27, str(ended), "0", "0"])
        (folder / "stat").write_text(
            f"{pid} ({comm}) {state} {parent} {pid} {pid} 0 -1 4194304 1 0 0 0 {cpu[0]} {cpu[1]} "
            f"0 0 20 0 {left} 0 {pid * 10} 1000000 {rss} {tail}\n"
        )
        (folder / "status").write_text(
            STATUS.format(comm=comm, pid=pid, inner=pid if inner is None else inner, uid=uid)
        )
        (folder / "io").write_text("rchar: 1000\nwchar: 2000\nread_bytes: 0\nwrite_bytes: 0\n")
        (folder / "wchan").write_text("futex_wait_queue")
        (folder / "syscall").write_text("202 0x1 0x2")
        (folder / "cgroup").write_text(cgroup)
        (folder / "environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in (env or {}).items()))
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in argv))
        lines = [
            f"7f{number:010x}-7f{number + 1:010x} r-xp 00000000 08:01 7 {path}" for number, path in enumerate(mapped)
        ]
        (folder / "maps").write_text("".join(line + "\n" for line in lines))
        for number, name in enumerate((comm, *threads)):
            (folder / "task" / str(pid + number)).mkdir(parents=True, exist_ok=True)
            (folder / "task" / str(pid + number) / "comm").write_text(name + "\n")
        (folder / "task" / str(pid) / "children").write_text("".join(f"{child} " for child in children))
        self.link(folder / "exe", executable)
        self.link(folder / "cwd", "/home/x")
        self.link(folder / "ns" / "mnt", "mnt:[1]")
        self.link(folder / "fd" / "1", "/logs/out.log")
        self.link(folder / "fd" / "2", "pipe:[77]")
        return folder

    def remove(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.root / str(pid))


def rank_env(rank: int, world: int = 2, **more: str) -> dict[str, str]:
    """Environment that torchrun gives to a rank."""
    return {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
        "GROUP_RANK": "0", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "job7",
        "TORCHELASTIC_RESTART_COUNT": "0", **more,
    }  # fmt: skip
