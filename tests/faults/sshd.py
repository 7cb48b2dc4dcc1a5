"""The server of a node, its login shell, and the node itself: killed, restarted, another's, silent, babbling."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import uuid
from pathlib import Path

from tests.faults.fault import Family
from tests.faults.scene import MARK, Scene, Strike

fault = Family("sshd")

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


def agents(scene: Scene) -> list[int]:
    """The node sides that run on the struck node, by pid outside."""
    return [p.host_pid for p in scene.struck.matching("-I -S -B -u -c exec") if p.state != "Z"]


def kill_agent(scene: Scene) -> None:
    """Kill the node side: hangtop starts another."""
    for pid in agents(scene):
        os.kill(pid, signal.SIGKILL)


def restart(scene: Scene, *options: str) -> None:
    """Have the struck node's sshd begin anew, with every connection to it."""
    with contextlib.suppress(FileNotFoundError):  # none listens
        scene.struck.stop_sshd()
    scene.struck.start_sshd(*options)


def _replace_sshd(scene: Scene, act: str) -> None:
    """Put something else in the place of sshd."""
    scene.struck.stop_sshd()
    program = SERVER.format(act=act)
    server = scene.struck.spawn([sys.executable, "-c", program], env={MARK: "1"})

    def end() -> None:
        server.kill()
        server.wait()
        scene.struck.start_sshd()

    scene.undo.callback(end)


def _restore_sshd(scene: Scene) -> None:
    scene.undo.close()


fault("sshd killed, and restarted", "nothing listens at")(
    Strike(lambda s: s.struck.stop_sshd(), lambda s: s.struck.start_sshd(), why="nothing listens at")
)
fault("the node side killed", r"killed \(SIGKILL\)")(Strike(kill_agent, why=r"killed \(SIGKILL\)"))


def _another_key(scene: Scene) -> None:
    node = scene.struck
    kept = {name: (node.root / name).read_bytes() for name in ("host_key", "host_key.pub", "authorized_keys")}
    node.make_host_key(kept["authorized_keys"].decode())
    restart(scene)

    def back() -> None:
        for name, data in kept.items():
            (node.root / name).write_bytes(data)
        restart(scene)

    scene.undo.callback(back)


fault("host key changed", "shows another host key than before")(
    Strike(_another_key, _restore_sshd, why="shows another host key than before", seconds=100.0)
)


def _reboot(scene: Scene) -> None:
    """All its processes end, it is away for a while, and comes back with another boot id."""
    node = scene.struck
    node.cut()
    for process in node.processes():
        if "node_init" not in process.command and "nursery" not in process.command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.host_pid, signal.SIGKILL)
    (node.root / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (node.root / "sshd.pid").unlink(missing_ok=True)


def _boot(scene: Scene) -> None:
    scene.struck.start_sshd()
    scene.struck.restore()


fault("node rebooted", "(link is cut|is down)")(Strike(_reboot, _boot, why="(link is cut|is down)"))


def _instead(act: str, why: str, *, hold: float = 0.0) -> Strike:
    """Something else than sshd takes connections, and does this with them, until sshd is back."""
    return Strike(lambda s: _replace_sshd(s, act), _restore_sshd, why=why, seconds=60.0, hold=hold)


fault("a server that accepts and says nothing", "accepts connections, but no login was done")(
    _instead("time.sleep(60)", "accepts connections")
)
BABBLE = "(?i)(banner|version|no login|protocol|identification|handshake)"
fault("a banner of lines without end", BABBLE)(
    _instead("conn.sendall(b'welcome to this machine\\r\\n' * 100)", BABBLE, hold=20.0)
)
fault("a banner that drips", BABBLE)(_instead("conn.sendall(b'x\\r\\n'); time.sleep(0.5)", BABBLE))


shells = Family("shells")


def log_in_as(scene: Scene, shell: str, files: dict[str, str] | None = None) -> None:
    """Give root of the struck node this login shell, and a home with these files; connect anew."""
    home, passwd = scene.path(".home"), scene.path(".passwd")
    home.mkdir()
    for name, text in (files or {}).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    others = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    passwd.write_text("\n".join([f"root:x:0:0:root:{home}:{shell}", *others]) + "\n")
    scene.struck.run(["mount", "--bind", str(passwd), "/etc/passwd"])
    scene.undo.callback(scene.struck.run, ["umount", "/etc/passwd"])
    restart(scene)


def _back(scene: Scene) -> None:
    scene.undo.close()
    restart(scene)


def _works(name: str, shell: str, files: dict[str, str] | None = None) -> None:
    """Register a shell under which the node is as live as ever."""
    shells(name, "live", needs=shell)(Strike(lambda s: log_in_as(s, shell, files), _back, link="live"))


def _refuses(name: str, shell: str, says: str) -> None:
    """Register a shell that runs no command."""
    shells(name, says, needs=shell)(Strike(lambda s: log_in_as(s, shell), _back, why=says))


def _shell(name: str) -> str:
    return shutil.which(name) or f"/usr/bin/{name}"


TALK = "echo Welcome to the cluster, mind the quota\n"
MEGABYTE = "head -c 1000000 /dev/zero | tr '\\0' '*'; echo\n"

_works("login shell fish that greets", _shell("fish"), {".config/fish/config.fish": TALK})
_works("login shell csh", _shell("csh"), {".cshrc": TALK})
_works("an echo in .bashrc", _shell("bash"), {".bashrc": TALK})
_works("a megabyte from .bashrc", _shell("bash"), {".bashrc": MEGABYTE})
_refuses("login shell nologin", "/usr/sbin/nologin", "no shell runs commands there: .*not available")
