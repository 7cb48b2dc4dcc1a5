"""Login shells other than bash, ones that run nothing, and ones that talk before they run what they are told."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.faults.fault import Family
from tests.faults.scene import Scene, Strike
from tests.faults.sshd import restart

fault = Family("shells")


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
    fault(name, "live", needs=shell)(Strike(lambda s: log_in_as(s, shell, files), _back, link="live"))


def _refuses(name: str, shell: str, says: str) -> None:
    """Register a shell that runs no command."""
    fault(name, says, needs=shell)(Strike(lambda s: log_in_as(s, shell), _back, link="lost", why=says))


def _shell(name: str) -> str:
    return shutil.which(name) or f"/usr/bin/{name}"


TALK = "echo Welcome to the cluster, mind the quota\n"
MEGABYTE = "head -c 1000000 /dev/zero | tr '\\0' '*'; echo\n"

_works("login shell fish", _shell("fish"))
_works("login shell fish that greets", _shell("fish"), {".config/fish/config.fish": TALK})
_works("login shell csh", _shell("csh"), {".cshrc": TALK})
_works("login shell dash", _shell("dash"))
_works("an echo in .bashrc", _shell("bash"), {".bashrc": TALK})
_works("a megabyte from .bashrc", _shell("bash"), {".bashrc": MEGABYTE})
_works("a .bashrc that complains for long", _shell("bash"), {".bashrc": "head -c 300000 /dev/urandom >&2\n"})
_works("a .bashrc that takes four seconds", _shell("bash"), {".bashrc": "sleep 4\n"})
_refuses("login shell /bin/false", "/bin/false", "no shell runs commands there")
_refuses("login shell nologin", "/usr/sbin/nologin", "no shell runs commands there: .*not available")
_refuses("a login shell that ends at once, well", "/bin/true", "no shell runs commands there")
