"""Logins of other kinds: forced commands, other shells, other environments, servers that insist on something."""

from __future__ import annotations

import os
import shutil
import signal

from tests.faults.fault import Family
from tests.faults.limits import in_own_mounts, streams
from tests.faults.scene import Scene, Strike
from tests.faults.shells import log_in_as
from tests.faults.sshd import restart

fault = Family("logins")


def _server(*options: str) -> Strike:
    """Sshd with these lines before its own, under which the node is as live as ever."""
    return Strike(lambda scene: restart(scene, *options), restart, link="live")


def _refused(why: str, *options: str) -> Strike:
    """The same, where there is no way in; that must be said so."""
    return Strike(lambda scene: restart(scene, *options), restart, link="lost", why=why)


def _environment(**variables: str) -> Strike:
    """A login whose programs find these variables."""

    def begin(scene: Scene) -> None:
        values = {"PATH": scene.struck.path, **variables}
        restart(scene, "SetEnv " + " ".join(f"{name}={value}" for name, value in values.items()))

    return Strike(begin, restart, link="live")


NO_SHELL = "no shell runs commands there"
fault("a forced command that runs what was asked for", "live")(
    _server('ForceCommand exec sh -c "$SSH_ORIGINAL_COMMAND"')
)
fault("a forced command that talks and ends", NO_SHELL)(
    _refused(NO_SHELL, "ForceCommand echo 'This account is for backups.'")
)
fault("a forced command that asks a question", NO_SHELL)(
    _refused(NO_SHELL, "ForceCommand printf 'Accept the rules? [y/N] '; read answer; echo no")
)
fault("SFTP alone", f"{NO_SHELL}|sftp")(
    _refused(f"{NO_SHELL}|sftp", "Subsystem sftp internal-sftp", "ForceCommand internal-sftp")
)
fault("keys changed every 16 KB", "live")(_server("RekeyLimit 16K"))
fault("asked each second whether it lives", "live")(_server("ClientAliveInterval 1", "ClientAliveCountMax 1"))
fault("compression", "live")(_server("Compression yes"))
fault("no permission for a terminal or forwarding", "live")(_server("PermitTTY no", "DisableForwarding yes"))
fault("a locale that is not there", "live")(_environment(LC_ALL="xx_YY.UTF-8", LANG="zz", LANGUAGE="q"))
fault("Python's variables set against it", "live")(
    _environment(PYTHONHOME="/nowhere", PYTHONPATH="/dev/null", PYTHONSTARTUP="/dev/zero", PYTHONIOENCODING="utf-16")
)
fault("LD_PRELOAD of what is not there", "live")(_environment(LD_PRELOAD="/nowhere/lib.so"))
fault("a time zone of nonsense, tools that speak German", "live")(_environment(TZ="Nowhere/At-99", LC_MESSAGES="de_DE"))


def _slow_names(scene: Scene) -> None:
    """The server asks for the name of who comes, and no name server answers: a login takes ten seconds."""
    servers = scene.path(".conf")
    servers.write_text("nameserver 10.255.255.1\noptions timeout:3 attempts:2\n")
    scene.struck.run(["mount", "--bind", str(servers), "/etc/resolv.conf"])
    scene.undo.callback(scene.struck.run, ["umount", "/etc/resolv.conf"])
    restart(scene, "UseDNS yes")


def _back(scene: Scene) -> None:
    scene.undo.close()
    restart(scene)


fault("names that nobody resolves", "live")(Strike(_slow_names, _back, link="live"))


def _rbash(scene: Scene) -> None:
    log_in_as(scene, shutil.which("rbash") or "/bin/rbash")


fault("login shell rbash", "live", needs="rbash")(Strike(_rbash, _back, link="live"))


def _sessions(scene: Scene) -> list[int]:
    """What serves hangtop's connection."""
    mine = [process for process in scene.struck.processes() if process.command.startswith("sshd")]
    return [process.host_pid for process in mine if "listener" not in process.command]


def _stop(scene: Scene) -> None:
    for pid in _sessions(scene):
        os.kill(pid, signal.SIGSTOP)


def _continue(scene: Scene) -> None:
    for pid in _sessions(scene):
        os.kill(pid, signal.SIGCONT)


SILENT = "no answer|no sample|heard nothing"
fault("the server's process stopped (SIGSTOP)", SILENT)(Strike(_stop, _continue, link="stale", why=SILENT))


def _sees(name: str, *commands: str) -> None:
    """Register mounts in which the node side starts anew."""
    fault(name, "samples go on")(streams(lambda scene: in_own_mounts(scene, *commands), hold=6.0))


_sees("/proc with processes alone (subset=pid)", "mount -t proc -o subset=pid proc /proc")
_sees("no /sys", "mount -t tmpfs none /sys")
_sees("/tmp and /dev/shm noexec", "mount -t tmpfs -o noexec none /tmp", "mount -t tmpfs -o noexec none /dev/shm")
_sees("no users and groups", "mount --bind /dev/null /etc/passwd", "mount --bind /dev/null /etc/group")
