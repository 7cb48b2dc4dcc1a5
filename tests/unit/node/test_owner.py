"""A probe that borrows a rank's interpreter and environment runs as the rank's owner, or borrows nothing."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.fleet import payload
from collectors.node.processes import launch as owner
from tests.support.fake_proc import FakeProc
from tests.support.node_agent import children, wait_gone

USER = 65534
PYTHON = "/usr/bin/python3"
Rank = Callable[..., int]


@pytest.fixture
def rank() -> Iterator[Rank]:
    """Starts a process that looks like a rank: its first word, its settings, its user."""
    running: list[subprocess.Popen[bytes]] = []

    def start(uid: int = USER, first: str = PYTHON, **env: str) -> int:
        running.append(
            subprocess.Popen(
                [first, "300"], executable=shutil.which("sleep"), user=uid, group=uid, extra_groups=[4242], env=env
            )
        )
        return running[-1].pid

    yield start
    for process in running:
        process.kill()
        process.wait()


def launched(pid: int | None, *command: str, python: str = "") -> tuple[str, str]:
    """Standard output and error of a command that is started with what a rank has."""
    arguments = {"pid": pid, "python": python, "env": {"EXTRA": "1"}, "command": list(command)}
    env = {**os.environ, "NCCL_MINE": "login"}
    with subprocess.Popen(
        payload.command(sys.executable, nice=False), stdin=-1, stdout=-1, stderr=-1, env=env
    ) as process:
        assert process.stdin is not None
        process.stdin.write(payload.pack("collectors.node.processes.launch", arguments))
        process.stdin.flush()
        process.wait(20)
        out, err = process.communicate()
    return out.decode(), err.decode()


WHO = "import os; print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ.get('NCCL_X'))"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become others")


@as_root
def test_as_root_it_becomes_the_ranks_owner(rank: Rank) -> None:
    out, _ = launched(rank(NCCL_X="ranks"), "{python}", "-I", "-c", WHO)
    assert out.strip() == f"({USER}, {USER}, {USER}) ({USER}, {USER}, {USER}) [4242] ranks"


@as_root
def test_a_ranks_process_cannot_be_left_behind(rank: Rank) -> None:
    """The parent-death signal is asked for after the change of user, which would take it away."""
    command = payload.command(sys.executable)
    process = subprocess.Popen(command, stdin=-1, stdout=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    words = ["sh", "-c", "echo $$; exec sleep 300"]
    arguments = {"pid": rank(PATH="/usr/bin:/bin"), "python": "", "env": {}, "command": words}
    process.stdin.write(payload.pack("collectors.node.processes.launch", arguments))
    process.stdin.flush()
    child = int(process.stdout.readline())
    process.kill()
    process.communicate()
    wait_gone([child], 5)


@as_root
def test_of_roots_own_rank_no_interpreter_that_others_can_change_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    folder.mkdir()
    python = folder / "python"
    python.symlink_to(sys.executable)
    folder.chmod(0o777)
    with subprocess.Popen([python, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process_of_root:
        assert process_of_root.stdout is not None
        process_of_root.stdout.readline()
        out, err = launched(process_of_root.pid, "sh", "-c", "echo {python}")
        process_of_root.communicate(b"\n")
    assert str(python) not in out
    assert "writable by others" in err


# --- what the kernel says of it -----------------------------------------------------------------------------------


def process(root: Path, *, uids: str = "7 7 7 7", secure: int = 0, mnt: str = "mnt:[1]", top: str = "/") -> str:
    """A /proc with one process, 55."""
    for pid in ("55", "self"):
        for space in ("mnt", "user", "pid"):
            target = mnt if (pid, space) == ("55", "mnt") else f"{space}:[1]"
            FakeProc.link(root / pid / "ns" / space, target)
        FakeProc.link(root / pid / "root", top if pid == "55" else "/")
    ids = uids.replace(" ", "\t")
    (root / "55" / "status").write_text(f"Name:\tx\nUid:\t{ids}\nGid:\t7\t7\t7\t7\nGroups:\t8 9 \n")
    (root / "55" / "stat").write_text("55 (a b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0 " + "0 " * 30)
    (root / "55" / "auxv").write_bytes(struct.pack("@LLLLLL", 6, 4096, 23, secure, 0, 0))
    return str(root)


def test_one_whose_program_had_more_rights_than_its_caller_is_nobodys(tmp_path: Path) -> None:
    """``RANK=0 LD_PRELOAD=… sudo sleep 1000``: all of root's ids, and the environment of who called it."""
    assert owner.owner_of(55, process(tmp_path, uids="0 0 0 0", secure=1)) is None
    (tmp_path / "55" / "auxv").unlink()
    assert owner.owner_of(55, str(tmp_path)) is None


@as_root
@pytest.mark.parametrize("way", ["container", "chroot"])
def test_of_root_in_a_real_container_nothing_is_run(tmp_path: Path, way: str) -> None:
    words = ["unshare", "-m", "-p", "--fork", "--kill-child"] if way == "container" else []
    into = f"import os; os.chroot({str(tmp_path)!r}); " if way == "chroot" else ""
    code = into + "print(flush=True); input()"
    with subprocess.Popen([*words, sys.executable, "-c", code], stdin=-1, stdout=-1) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        inner = children(rank.pid) or [rank.pid]
        out, err = launched(inner[0], "{python}", "-c", "import os; print(os.environ.get('NCCL_MINE'))")
        rank.communicate(b"\n")
    assert out == "login\n"
    assert f"nothing of process {inner[0]} may be used" in err


@pytest.mark.parametrize(
    ("me", "uid", "mnt", "may"),
    [
        (0, 7, "mnt:[1]", True), (0, 7, "mnt:[9]", False), (0, 0, "mnt:[1]", True), (0, 0, "mnt:[9]", False),
        (7, 7, "mnt:[9]", True), (7, 8, "mnt:[1]", False), (7, 0, "mnt:[1]", False),
    ],
)  # fmt: skip
def test_whose_things_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, me: int, uid: int, mnt: str, may: bool
) -> None:
    monkeypatch.setattr(owner.os, "geteuid", lambda: me)  # type: ignore[attr-defined]
    proc = process(tmp_path, mnt=mnt)
    assert owner.may_be_imitated(55, owner.ProcessOwner(uid, uid, (), 1), proc) is may


@as_root
def test_who_became_a_ranks_owner_gets_no_more_rights_by_a_setuid_program(rank: Rank) -> None:
    out, err = launched(rank(uid=65534), "grep", "NoNewPrivs", "/proc/self/status")
    assert (out, err) == ("NoNewPrivs:\t1\n", "")
