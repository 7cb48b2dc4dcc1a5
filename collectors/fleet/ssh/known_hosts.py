"""known_hosts files, parsed by asyncssh and again only after a change, and the host keys that they trust."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import asyncssh

from collectors.fleet.ssh.config import HostSettings

_CERTIFICATE = "-cert-v01@openssh.com"
_ALGORITHMS = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip
"""Algorithms of host keys, in order of preference."""


class KnownKeys(NamedTuple):
    """The entries of the known_hosts files for one host."""

    trusted: Sequence[asyncssh.SSHKey]
    authorities: Sequence[asyncssh.SSHKey]
    """Certificate authorities."""
    revoked: Sequence[asyncssh.SSHKey]
    named: bool
    """True if keys are known for exactly this name and port. Then, as in OpenSSH, any other key is a changed key, even
    one of another type. Keys known for the name without the port do not have this effect."""

    def algorithms(self) -> list[str]:
        """Algorithms to propose: types of known keys first, so that the host shows a key that can be checked.

        Certificates come before plain keys if an authority is known.
        """
        kinds = {key.get_algorithm() for key in self.trusted} if self.named else set()
        plain = sorted(_ALGORITHMS, key=lambda name: ("ssh-rsa" if name.startswith("rsa-") else name) not in kinds)
        return [*(f"{name}{_CERTIFICATE}" for name in _ALGORITHMS if self.authorities), *plain]


class HostKeys:
    """Host keys of the known_hosts files, and the keys accepted in this run."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, ...], tuple[tuple[int, ...], asyncssh.SSHKnownHosts]] = {}
        self._accepted: dict[str, list[asyncssh.SSHKey]] = {}

    def known(self, settings: HostSettings) -> KnownKeys:
        """The known keys of a host; reads the files again if one has changed."""
        files = settings.known_hosts
        stamps = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in files)
        if files not in self._files or self._files[files][0] != stamps:
            self._files[files] = stamps, read_known_hosts(files)
        entries = self._files[files][1]
        keys, authorities, revoked = entries.match(settings.known_name, "", None)[:3]
        plain, more, _ = entries.match(settings.known_as, "", None)[:3]
        exact = [*self._accepted.get(settings.known_name, ()), *keys]
        return KnownKeys(exact or plain, [*authorities, *more], revoked, bool(exact))

    def remember(self, settings: HostSettings, key: asyncssh.SSHKey) -> None:
        """Trust a key from now on; like OpenSSH, only for this run if the file cannot be written."""
        self._accepted.setdefault(settings.known_name, []).append(key)
        for path in settings.known_hosts[:1]:
            with suppress(OSError):
                append(path, settings.known_name, key)


def read_known_hosts(files: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    """All entries of some files; like OpenSSH, it skips invalid lines and files that cannot be read.

    It also skips a line with an empty name (``node1, ssh-ed25519 …``), which asyncssh would match to every host.
    """
    entries = asyncssh.import_known_hosts("")
    for path in files:
        with suppress(OSError):
            for line in path.read_bytes().decode("utf-8", "replace").splitlines():
                if any("" in word.split(",") for word in line.split(None, 2)[:2]):
                    continue
                with suppress(ValueError):
                    entries.load(line)
    return entries


def append(path: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Append a host's key to a known_hosts file.

    Creates the file and its folder if missing, readable only by the user. Raises :class:`OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(handle).st_size
        ends = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
        shown = " ".join(key.export_public_key("openssh").decode().split()[:2])
        os.write(handle, f"{'' if ends else chr(10)}{name} {shown}\n".encode())
    finally:
        os.close(handle)
