"""The server of a node, and the node itself: killed, restarted, another's, silent, babbling, at its limits."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import uuid

from tests.faults.fault import Family, Outcome
from tests.faults.running import Watch, run
from tests.faults.scene import MARK, Scene, Strike

fault = Family("sshd")

SERVER = """\
import socket, sys, threading, time
def serve(conn):
    try:
        while {forever}:
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
    program = SERVER.format(forever="True", act=act)
    server = scene.struck.spawn([sys.executable, "-c", program], env={MARK: "1"})

    def end() -> None:
        server.kill()
        server.wait()
        scene.struck.start_sshd()

    scene.undo.callback(end)


def _restore_sshd(scene: Scene) -> None:
    scene.undo.close()


fault("sshd killed, and restarted", "nothing listens at")(
    Strike(lambda s: s.struck.stop_sshd(), lambda s: s.struck.start_sshd(), link="lost", why="nothing listens at")
)
fault("the node side killed", r"killed \(SIGKILL\)")(Strike(kill_agent, link="lost", why=r"killed \(SIGKILL\)"))


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
    Strike(_another_key, _restore_sshd, link="lost", why="shows another host key than before", seconds=100.0)
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


fault("node rebooted", "(link is cut|is down)")(
    Strike(_reboot, _boot, link="lost", why="(link is cut|is down)", disturbs=False)
)


def _instead(act: str, why: str, *, hold: float = 0.0) -> Strike:
    """Something else than sshd takes connections, and does this with them, until sshd is back."""
    return Strike(lambda s: _replace_sshd(s, act), _restore_sshd, link="lost", why=why, seconds=60.0, hold=hold)


fault("a server that accepts and says nothing", "accepts connections, but no login was done")(
    _instead("time.sleep(60)", "accepts connections")
)
BABBLE = "(?i)(banner|version|no login|protocol|identification|handshake)"
fault("a banner of lines without end", BABBLE)(
    _instead("conn.sendall(b'welcome to this machine\\r\\n' * 100)", BABBLE, hold=20.0)
)
fault("a banner that is one line without end", BABBLE)(_instead("conn.sendall(b'x' * 65536)", BABBLE, hold=20.0))
fault("a banner that drips", BABBLE)(_instead("conn.sendall(b'x\\r\\n'); time.sleep(0.5)", BABBLE))


def _great_banner(scene: Scene) -> None:
    text = scene.path(".banner")
    text.write_text("Authorised use only. \x1b[31m\x1b]0;title\x07\n" * 4000)
    restart(scene, f"Banner {text}")
    scene.undo.callback(restart, scene)


fault("a banner of 160 KB with escape codes before the login", "live")(
    Strike(_great_banner, _restore_sshd, link="live", seconds=30.0)
)


@fault("MaxSessions 1", "MaxSessions must be 10")
def max_sessions(scene: Scene) -> Outcome:
    """The stream is all that fits; stacks are asked for over another session."""
    before = scene.before()
    restart(scene, "MaxSessions 1")
    scene.undo.callback(restart, scene)
    done = run(["stacks", *scene.reach, "--batch"])
    scene.undo.close()
    left = scene.left(before)
    line = next((line for line in done.said.splitlines() if "MaxSessions" in line), done.said[-300:])
    return Outcome(line, done.seconds, 0.0, left=left, disturbed=tuple(done.shortcomings()))


@fault("MaxStartups 2:90:3, sixteen connections at once", "16 of 16 live")
def max_startups(scene: Scene) -> Outcome:
    """Sshd drops nine of ten handshakes beyond two."""
    before = scene.before()
    scene.struck.stop_sshd(sessions=False)
    scene.struck.start_sshd("MaxStartups 2:90:3")
    scene.undo.callback(restart, scene)
    names = [f"alias{number}" for number in range(16)]
    config = scene.path(".config")
    aliases = f"Host {' '.join(names)}\n  HostName {scene.struck.address}\n"
    config.write_text(aliases + scene.nursery.cluster.ssh_config.read_text())
    with Watch(scene.path(".htr"), [*names, "-F", str(config)]) as watch:
        began = time.time()
        live = watch.wait_live(names, seconds=60.0)
        watch.end()
        return Outcome("16 of 16 live", live - began, 0.0, left=scene.left(before))
