"""The user's ssh_config as it applies to one host: read by asyncssh, StrictHostKeyChecking by ``ssh -G``."""

from __future__ import annotations

import asyncio
import glob
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from collectors.fleet.clean import clean, clean_bytes
from collectors.fleet.transport import SshConfigError

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
KEEPALIVE = 5.0
KEEPALIVES = 1
"""A cut link is noticed after ``KEEPALIVE * (KEEPALIVES + 1)`` seconds of silence. A node of a large job is read every
4 s: more frequent keepalives would cost as much as its samples."""
TIMEOUT = 10.0
"""Seconds for the connection, and again for the handshake, if the configuration sets no ConnectTimeout."""
_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ed25519")
_GLOBAL_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
_REVOKED = re.compile(r"(?im)^[ \t]*\"?RevokedHostKeys\"?[ \t=]+(?!none\b)")
_INCLUDE = re.compile(r"(?im)^[ \t]*\"?Include\"?[ \t=]+(.*)")

# Options that hangtop sets itself, whatever the ssh_config says: keys, host keys and proxies are passed to each
# connection; sessions get no terminal, environment or command from the configuration; no password is asked for.
_OWN: Mapping[str, Any] = {
    "client_keys": None, "agent_path": None, "known_hosts": None, "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [], "gss_host": None, "gss_auth": False, "gss_kex": False, "host_based_auth": False,
    "password_auth": False, "kbdint_auth": False, "canonicalize_hostname": False, "tunnel": None,
    "proxy_command": None, "connect_timeout": None, "login_timeout": 0, "keepalive_interval": KEEPALIVE,
    "keepalive_count_max": KEEPALIVES, "command": None, "env": None, "send_env": None, "request_pty": False,
    "agent_forwarding": False, "x11_forwarding": False, "encoding": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The configuration of one host."""

    original: str
    """The host as the user named it."""
    options: asyncssh.SSHClientConnectionOptions
    jumps: tuple[str, ...]
    """ProxyJump, host by host."""
    proxy_command: str
    known_hosts: tuple[Path, ...]
    """Files of known host keys; a new key is added to the first one."""
    identities: tuple[Path, ...]
    certificates: tuple[Path, ...]
    agent: str
    """Path of the agent's socket; empty for none."""

    @property
    def host(self) -> str:
        """Name or address to connect to."""
        return self.options.host.removeprefix("[").removesuffix("]")

    @property
    def port(self) -> int:
        """TCP port to connect to."""
        return self.options.port

    @property
    def timeout(self) -> float:
        """ConnectTimeout in seconds, or :data:`TIMEOUT`."""
        seconds = self.value("ConnectTimeout")
        return float(seconds) if isinstance(seconds, int) and seconds > 0 else TIMEOUT

    @property
    def known_as(self) -> str:
        """Name of the host without its port; a host certificate must contain it."""
        return (self.options.host_key_alias or self.host).lower()

    @property
    def known_name(self) -> str:
        """Name in known_hosts: with the port, unless that is 22 or the name is an alias."""
        if self.port == 22 or self.options.host_key_alias:
            return self.known_as
        return f"[{self.known_as}]:{self.port}"

    def value(self, keyword: str) -> Any:
        """The value of a keyword; None if the configuration does not set it."""
        return self.options.config.get(keyword)


class SshConfig:
    """The configuration files of one user."""

    def __init__(self, path: Path | None = None) -> None:
        """Read ``path`` alone, or else the user's and the system's configuration if they exist.

        Raises :class:`SshConfigError`.
        """
        usual = (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG)
        self._files = [path] if path is not None else [file for file in usual if file.is_file()]
        self._named = [] if path is None else ["-F", str(path)]
        read = [*self._files]
        for file in read:  # grows by the files that they include
            try:
                text = file.read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                if file in self._files:
                    raise SshConfigError(f"{file}: cannot be read: {error.strerror}") from None
                continue  # as ssh does
            if _REVOKED.search(text):
                raise SshConfigError(f"{file}: RevokedHostKeys is not read by hangtop's own SSH: use --via ssh")
            folder = SYSTEM_CONFIG.parent if SYSTEM_CONFIG.parent in file.parents else usual[0].parent
            words = (word.strip("\"'") for line in _INCLUDE.findall(text) for word in line.split())
            at = [os.path.join(folder, os.path.expanduser(word)) for word in words]  # noqa: PTH111, PTH118 (~nobody)
            read += {Path(name) for pattern in at for name in glob.glob(pattern)}.difference(read)  # noqa: PTH207

    def settings(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """The configuration of a host. Blocks while ``Match exec`` runs. Raises :class:`SshConfigError`."""
        named: dict[str, Any] = {"host": host, "username": user or (), "port": () if port is None else port}
        try:
            options = asyncssh.SSHClientConnectionOptions(config=self._files or None, **named, **_OWN)
            if options.config.has_match_final():
                options.update(reload=True, final=True)
        except RecursionError:
            raise SshConfigError(f"ssh_config of {host}: its files include one another") from None
        except (ValueError, OSError) as error:  # asyncssh's own errors name file and line
            raise SshConfigError(f"ssh_config of {host}: {clean(str(error))} (--via ssh has OpenSSH read it)") from None
        config = options.config
        home = Path("~/.ssh").expanduser()
        jumps = str(config.get("ProxyJump") or "")
        mine = _paths(config.get("UserKnownHostsFile"), (home / "known_hosts", home / "known_hosts2"))
        agent = config.get("IdentityAgent", os.environ.get("SSH_AUTH_SOCK"))
        return HostSettings(
            original=host,
            options=options,
            jumps=tuple(word.strip().removeprefix("ssh://").rstrip("/") for word in jumps.split(",") if word.strip()),
            proxy_command="" if jumps else str(config.get("ProxyCommand") or ""),
            known_hosts=(*mine, *_paths(config.get("GlobalKnownHostsFile"), _GLOBAL_KNOWN_HOSTS)),
            identities=_paths(config.get("IdentityFile"), [home / name for name in _IDENTITIES]),
            certificates=_paths(config.get("CertificateFile"), ()),
            agent=str(Path(str(agent)).expanduser()) if agent else "",
        )

    async def strictness(self, settings: HostSettings) -> str:
        """StrictHostKeyChecking of a host by ``ssh -G``; ``yes`` with BatchMode, ``ask`` if ssh cannot run here."""
        words = ["ssh", "-G", *self._named, "-l", settings.options.username, "-p", str(settings.port)]
        try:
            done = await asyncio.to_thread(
                subprocess.run, [*words, settings.original], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return "ask"
        said = dict(line.split(" ", 1) for line in clean_bytes(done.stdout).splitlines() if " " in line)
        return "yes" if said.get("batchmode") == "yes" else said.get("stricthostkeychecking", "ask")


def _paths(texts: object, default: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(default) if not isinstance(texts, list) else tuple(Path(text).expanduser() for text in texts)
