"""One node of a test cluster: run things in it, cut it off, take its sshd away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sshd_binary() -> str | None:
    """Absolute path of sshd, which insists on being started by it."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{_PATH}")


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process of a node."""

    pid: int
    """As the node numbers it."""
    host_pid: int
    """As this machine numbers it."""
    command: str
    """Its words joined by spaces; ``[name]`` when it has none left."""
    state: str

    def environ(self) -> dict[str, str]:
        """Read the environment that it was started with; empty when it is gone."""
        try:
            words = Path(f"/proc/{self.host_pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return {}
        pairs = (word.decode(errors="replace").partition("=") for word in words if b"=" in word)
        return {name: value for name, _, value in pairs}


@dataclass(slots=True)
class Node:
    """A machine as far as namespaces can make one."""

    name: str
    address: str
    root: Path
    port: str
    """Name of its port on the bridge, on this machine."""
    init_pid: int = 0
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """What was started there from here; it ends with the node."""
    path: str = field(init=False)
    """PATH of whatever runs there, over SSH too; takes effect with the next :meth:`start_sshd`."""

    def __post_init__(self) -> None:
        self.path = f"{self.bin}:{_PATH}"

    # --- places --------------------------------------------------------------------------------------------------

    @property
    def bin(self) -> Path:
        """Folder that comes first on its PATH."""
        return self.root / "bin"

    @property
    def tmp(self) -> Path:
        """Its /tmp, seen from outside."""
        return self.root / "tmp"

    @property
    def infiniband(self) -> Path:
        """Its /sys/class/infiniband, seen from outside."""
        return self.root / "infiniband"

    def tool(self, name: str, text: str) -> Path:
        """Put an executable script on its PATH."""
        script = self.bin / name
        script.write_text(text)
        script.chmod(0o755)
        return script

    # --- running -------------------------------------------------------------------------------------------------

    def enter(self, command: Sequence[str]) -> list[str]:
        """Words that run ``command`` inside from outside; it dies with the one who runs them."""
        return ["nsenter", "-t", str(self.init_pid), "-m", "-u", "-i", "-n", "-p", "--",
                "setpriv", "--pdeathsig", "KILL", "--", *command]  # fmt: skip

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment of what is started there: a login's, plus ``env``."""
        return {"PATH": self.path, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8", **(env or {})}

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        return subprocess.run(
            self.enter(command), input=stdin, env=self.environment(env), check=check, timeout=timeout,
            capture_output=True, text=True,
        )  # fmt: skip

    def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a command there. Its end shows in the Popen; to signal it use :meth:`kill` with its inner pid."""
        process = subprocess.Popen(
            self.enter(command), env=self.environment(env), cwd=cwd or self.root, stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=stderr,
        )  # fmt: skip
        self.programs.append(process)
        return process

    def end_programs(self) -> None:
        """End what :meth:`spawn` started, and close what came of it."""
        for process in self.programs:
            process.kill()
            process.wait()
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()

    def processes(self) -> list[NodeProcess]:
        """Everything that runs there but its init, zombies included."""
        try:
            mine = Path(f"/proc/{self.init_pid}/ns/pid").readlink()
        except OSError:
            return []
        numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        found = (_look(number, mine) for number in numbers if number != self.init_pid)
        return [process for process in found if process is not None]

    def matching(self, text: str) -> list[NodeProcess]:
        """Processes whose command line contains ``text``."""
        return [process for process in self.processes() if text in process.command]

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process that the node knows as ``pid``."""
        for process in self.processes():
            if process.pid == pid:
                os.kill(process.host_pid, number)
                return
        raise ProcessLookupError(f"{self.name} has no process {pid}")

    # --- network and sshd ----------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Pull its cable."""
        subprocess.run(["ip", "link", "set", self.port, "down"], check=True)

    def restore(self) -> None:
        """Put its cable back."""
        subprocess.run(["ip", "link", "set", self.port, "up"], check=True)

    def make_host_key(self, authorized: str) -> None:
        """Make its host key and let the holder of the key ``authorized`` in as root."""
        key = self.root / "host_key"
        key.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        (self.root / "authorized_keys").write_text(authorized)

    def host_key(self) -> str:
        """Its public host key, as known_hosts has it after the name."""
        return " ".join((self.root / "host_key.pub").read_text().split()[:2])

    def start_sshd(self, *options: str) -> None:
        """Start sshd, after which it listens; ``options`` are lines that go before all others."""
        binary = sshd_binary()
        assert binary is not None
        config = self.root / "sshd_config"
        lines = [
            *options, f"HostKey {self.root}/host_key", f"PidFile {self.root}/sshd.pid",
            f"AuthorizedKeysFile {self.root}/authorized_keys", "PasswordAuthentication no",
            "StrictModes no", "UsePAM no", "PermitRootLogin yes",
            "UseDNS no", "MaxStartups 100", "PrintMotd no", f"SetEnv PATH={self.path}", "ListenAddress 0.0.0.0",
        ]  # fmt: skip
        config.write_text("\n".join(lines) + "\n")
        self.run([binary, "-f", str(config), "-E", str(self.root / "sshd.log")])

    def stop_sshd(self, *, sessions: bool = True) -> None:
        """Kill the listener and, with ``sessions``, every open connection's process too."""
        listener = self.root / "sshd.pid"
        mine = [process for process in self.processes() if process.command.startswith("sshd")]
        for process in mine:
            if sessions or process.pid == int(listener.read_text()):
                os.kill(process.host_pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(p.command.startswith("sshd: ") and "listener" in p.command for p in self.processes()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"sshd of {self.name} does not die")
            time.sleep(0.005)
        listener.unlink(missing_ok=True)


def _look(number: int, namespace: Path) -> NodeProcess | None:
    """Process ``number`` if it belongs to that PID namespace."""
    try:
        if Path(f"/proc/{number}/ns/pid").readlink() != namespace:
            return None
        words = Path(f"/proc/{number}/cmdline").read_bytes()
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{number}/status").read_text().splitlines() if ":\t" in line
        )
    except (OSError, ValueError):
        return None  # it ended while being looked at
    command = words.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace") or f"[{status['Name']}]"
    return NodeProcess(int(status["NSpid"].split()[-1]), number, command, status["State"][:1])
