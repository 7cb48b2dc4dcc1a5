"""First process of a test node: takes the namespaces that it was started in and furnishes them as a machine.

Started as ``unshare -m -u -i -p -n --fork python node_init.py`` with one JSON object as its argument. It says its
process id as the outside sees it, waits for a line (its network device has been moved in), configures the network, and
then lives until its standard input ends: with it the kernel ends everything in the node, so nothing can be left behind
even when the test run is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import TypedDict

MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18


class Plan(TypedDict):
    """What the node should look like."""

    hostname: str
    address: str
    """With its prefix length, ``10.77.0.1/24``."""
    root: str
    """The node's own folder outside: ``tmp``, ``infiniband``, ``hosts`` and ``boot_id`` lie in it."""
    keep: list[str]
    """Folders that must stay where they are although the node gets a /tmp of its own."""


_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def _bind(source: str, target: str) -> None:
    _mount(source, target, flags=MS_BIND | MS_REC)


def _furnish(plan: Plan) -> None:
    root = plan["root"]
    _mount("none", "/", flags=MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc")
    _bind(f"{root}/boot_id", "/proc/sys/kernel/random/boot_id")
    stash = f"{root}/stash"
    for name in ("cgroup", "net", "keep"):
        Path(stash, name).mkdir(parents=True)
    _sysfs(root, stash)
    kept = [Path(folder) for folder in plan["keep"] if Path(folder).is_relative_to("/tmp")]
    _bind("/tmp", f"{stash}/keep")
    _bind(f"{root}/tmp", "/tmp")
    for folder in kept:
        folder.mkdir(parents=True, exist_ok=True)
        _bind(f"{stash}/keep/{folder.relative_to('/tmp')}", str(folder))
    for fresh in ("/dev/shm", "/run"):
        _mount("tmpfs", fresh, "tmpfs", data="mode=1777")
    Path("/run/sshd").mkdir(mode=0o755)
    _bind(f"{root}/hosts", "/etc/hosts")
    _leave_out_login_scripts()
    socket.sethostname(plan["hostname"])


def _leave_out_login_scripts() -> None:
    """Have a login do nothing: bash reads them for every command over SSH, and those of this machine may be slow."""
    for name in (".bashrc", ".bash_profile", ".bash_login", ".profile"):
        script = Path("/root", name)
        if script.exists():
            _bind("/dev/null", str(script))


def _sysfs(root: str, stash: str) -> None:
    """Mount a sysfs that shows this network namespace, with the node's own /sys/class/infiniband."""
    _bind("/sys/fs/cgroup", f"{stash}/cgroup")
    _mount("sysfs", "/sys", "sysfs")
    _bind(f"{stash}/cgroup", "/sys/fs/cgroup")
    # A folder cannot be made in sysfs, so /sys/class is replaced; its links are relative and lead back into /sys.
    _bind("/sys/class/net", f"{stash}/net")
    _mount("tmpfs", "/sys/class", "tmpfs", data="mode=755")
    for name, source in (("net", f"{stash}/net"), ("infiniband", f"{root}/infiniband")):
        Path("/sys/class", name).mkdir()
        _bind(source, f"/sys/class/{name}")


def _reap(_number: int, _frame: FrameType | None) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # nothing left to reap


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def main() -> None:
    """Furnish, configure, live."""
    plan: Plan = json.loads(sys.argv[1])
    # /proc is still the outside's: it knows this process by the outside's number.
    _say(str(Path("/proc/self").readlink()))
    _furnish(plan)
    if not sys.stdin.readline():
        return
    network = f"link set lo up\naddr add {plan['address']} dev eth0\nlink set eth0 up\n"
    subprocess.run(["ip", "-batch", "-"], input=network.encode(), check=True)
    signal.signal(signal.SIGCHLD, _reap)
    _say("ready")
    while sys.stdin.readline():
        pass


if __name__ == "__main__":
    main()
