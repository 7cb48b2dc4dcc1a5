"""A node that is cut off, or whose server, shell or kernel misbehaves: hangtop says which, and mends it by itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.scene import TICK, Scene

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

Strike = Callable[[Scene], None]
SERVER = """\
import socket, sys, threading, time
def serve(conn):
    try:
        while True:
            {act}
    except OSError:
        pass
listener = socket.create_server(("0.0.0.0", 22))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


# --- the node is lost --------------------------------------------------------------------------------------------


def half_open(scene: Scene) -> None:
    """TCP of sshd's port is dropped without a word; the link stays up."""
    scene.rules(input="tcp dport 22 drop", output="tcp sport 22 drop")


def another_key(scene: Scene) -> None:
    node = scene.struck
    kept = {name: (node.root / name).read_bytes() for name in ("host_key", "host_key.pub", "authorized_keys")}
    node.make_host_key(kept["authorized_keys"].decode())
    scene.undo.callback(scene.restart_sshd)
    for name, data in kept.items():
        scene.undo.callback((node.root / name).write_bytes, data)
    scene.restart_sshd()


def reboot(scene: Scene) -> None:
    """All its processes end, it is away for a while, and comes back with another boot id."""
    node = scene.struck
    scene.undo.callback(node.restore)
    scene.undo.callback(node.start_sshd)
    node.cut()
    for process in node.processes():
        if "node_init" not in process.command and "nursery" not in process.command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, signal.SIGKILL)
    (node.root / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (node.root / "sshd.pid").unlink(missing_ok=True)


def instead_of_sshd(act: str) -> Strike:
    """Something else than sshd takes connections, and does this with them."""

    def strike(scene: Scene) -> None:
        scene.struck.stop_sshd()
        scene.undo.callback(scene.struck.start_sshd)
        scene.spawn(sys.executable, "-c", SERVER.format(act=act))

    return strike


def log_in_as(shell: str, **files: str) -> Strike:
    """Root of the node gets this login shell, and a home with these files; connections are made anew."""

    def strike(scene: Scene) -> None:
        home, passwd = scene.path(".home"), scene.path(".passwd")
        home.mkdir()
        for name, text in files.items():
            (home / f".{name}").write_text(text)
        others = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
        passwd.write_text("\n".join([f"root:x:0:0:root:{home}:{shell}", *others]) + "\n")
        scene.struck.run(["mount", "--bind", str(passwd), "/etc/passwd"])
        scene.undo.callback(scene.restart_sshd)
        scene.undo.callback(scene.struck.run, ["umount", "/etc/passwd"])
        scene.restart_sshd()

    return strike


BABBLE = "(?i)(banner|version|no login|protocol|identification|handshake)"
LOST: dict[str, tuple[Strike, str]] = {
    "half_open": (half_open, "(link is cut|no answer|is down)"),
    "host_key_changed": (another_key, "shows another host key than before"),
    "rebooted": (reboot, "(link is cut|is down)"),
    "server_says_nothing": (instead_of_sshd("time.sleep(60)"), "accepts connections, but no login was done"),
    "banner_without_end": (instead_of_sshd(r"conn.sendall(b'welcome to this machine\r\n' * 100)"), BABBLE),
    "banner_that_drips": (instead_of_sshd(r"conn.sendall(b'x\r\n'); time.sleep(0.5)"), BABBLE),
    "nologin": (log_in_as("/usr/sbin/nologin"), "no shell runs commands there: .*not available"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_lost_node_is_told_with_the_reason_and_comes_back(name: str, scene: Scene) -> None:
    strike, why = LOST[name]
    with scene.watched() as watch:
        struck = time.time()
        strike(scene)
        told = watch.wait_link("node2", "lost", why, since=struck, seconds=100.0)
        scene.undo.close()
        live = watch.wait_link("node2", "live", since=told.at, seconds=100.0)
        assert watch.wait_entry("node2", TICK, since=live.at)


# --- its samples go on -------------------------------------------------------------------------------------------


def wrapped(limit: str) -> Strike:
    """The node side runs behind these words of a shell."""
    return lambda scene: scene.wrap_python(f'{limit}\nexec {sys.executable} "$@"')


def read_only(scene: Scene) -> None:
    """The node side runs in mounts of its own, in which nothing can be written."""
    mounts = "for at in / /tmp /run /dev/shm; do mount -o remount,bind,ro $at || exit 1; done"
    inside = f'{mounts} && ! touch /var/tmp/hangtop-wrote-this 2>/dev/null && exec "$@"'
    scene.wrap_python(f"exec unshare -m sh -c '{inside}' sh {sys.executable} \"$@\"")


def crowd(scene: Scene) -> None:
    """2,000 processes that sleep, and some that come and go."""
    scene.spawn("sh", "-c", "for i in $(seq 2000); do sleep 600 & done; while :; do sleep 0.02; true | true; done")
    time.sleep(8.0)


def narrow(scene: Scene) -> None:
    """512 kbit/s either way."""
    words = ("tbf", "rate", "512kbit", "burst", "8kb", "latency", "2s")
    port = scene.struck.port
    subprocess.run(["tc", "qdisc", "replace", "dev", port, "root", *words], check=True)
    scene.undo.callback(subprocess.run, ["tc", "qdisc", "del", "dev", port, "root"], check=True)
    scene.struck.run(["tc", "qdisc", "replace", "dev", "eth0", "root", *words])
    scene.undo.callback(scene.struck.run, ["tc", "qdisc", "del", "dev", "eth0", "root"])


GOES_ON: dict[str, Strike] = {
    "echo_in_bashrc": log_in_as(shutil.which("bash") or "/bin/bash", bashrc="echo Welcome, mind the quota\n"),
    "megabyte_from_bashrc": log_in_as(
        shutil.which("bash") or "/bin/bash", bashrc="head -c 1000000 /dev/zero | tr '\\0' '*'; echo\n"
    ),
    "nofile_24": wrapped("ulimit -n 24"),
    "2_s_of_cpu": wrapped("ulimit -t 2"),
    "read_only_file_systems": read_only,
    "2000_processes_and_churn": crowd,
    "512_kbit": narrow,
}


@pytest.mark.parametrize("name", GOES_ON)
def test_samples_go_on_under_what_is_short_there(name: str, scene: Scene) -> None:
    with scene.watched() as watch:
        GOES_ON[name](scene)
        watch.wait_link("node2", "live")
        began = time.time()
        time.sleep(15.0)
        watch.wait_entry("node2", TICK, since=began)
        watch.wait_entry("node2", TICK, since=began + 10.0)
        over = time.time()
        scene.undo.close()
        assert watch.wait_entry("node2", TICK, since=over)
