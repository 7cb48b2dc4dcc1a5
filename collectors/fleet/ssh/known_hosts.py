"""known_hosts files, parsed by asyncssh once and again only after a change, and the judgement of host keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh

from collectors.fleet.ssh.config import HostSettings

_CERTIFICATE = "-cert-v01@openssh.com"
_ALGORITHMS = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip
"""Algorithms of host keys, in the order of preference."""


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What the known_hosts files say of one host."""

    own: Sequence[asyncssh.SSHKey]
    """Under its name, which has the port where that is not 22."""
    of_any_port: Sequence[asyncssh.SSHKey]
    """Under its name without the port."""
    authorities: Sequence[asyncssh.SSHKey]
    """Certificate authorities."""
    revoked: Sequence[asyncssh.SSHKey]

    def judge(self, key: asyncssh.SSHKey) -> Literal["known", "unknown", "changed"]:
        """Judge a host's key as OpenSSH does: another known key makes it ``changed``, also one of another type.

        A key may be known of the host whatever its port, but one of another port contradicts nothing.
        """
        if key in self.own or (not self.own and key in self.of_any_port):
            return "known"
        return "changed" if self.own else "unknown"

    def algorithms(self, *, certificates: bool) -> list[str]:
        """Algorithms to propose, those of known keys first, so that the host shows a key that can be checked.

        With ``certificates``, certificate algorithms come before plain keys.
        """
        kinds = {key.get_algorithm() for key in self.own}
        plain = sorted(_ALGORITHMS, key=lambda name: ("ssh-rsa" if name.startswith("rsa-") else name) not in kinds)
        return [*(f"{name}{_CERTIFICATE}" for name in _ALGORITHMS if certificates), *plain]


class HostKeys:
    """Host keys of the known_hosts files, and those accepted for this run."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, ...], tuple[tuple[int, ...], asyncssh.SSHKnownHosts]] = {}
        self._accepted: dict[str, list[asyncssh.SSHKey]] = {}

    def known(self, settings: HostSettings) -> KnownKeys:
        """The keys of a host."""
        entries = self._read(settings.known_hosts)
        keys, authorities, revoked = entries.match(settings.known_name, "", None)[:3]
        plain, more, _ = entries.match(settings.known_as, "", None)[:3]
        accepted = self._accepted.get(settings.known_name, ())
        return KnownKeys([*accepted, *keys], plain, [*authorities, *more], revoked)

    def accept(self, settings: HostSettings, key: asyncssh.SSHKey) -> None:
        """Trust a key for this run."""
        self._accepted.setdefault(settings.known_name, []).append(key)

    def _read(self, files: tuple[Path, ...]) -> asyncssh.SSHKnownHosts:
        stamps = tuple(map(_stamp, files))
        held = self._files.get(files)
        if held is None or held[0] != stamps:
            held = self._files[files] = (stamps, read_known_hosts(files))
        return held[1]


def read_known_hosts(files: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    """All entries of some files; as by OpenSSH, an invalid line and a file that cannot be read are passed over.

    So is a line with an empty name (``node1, ssh-ed25519 …``), which asyncssh would take for a name of every host.
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


def remember(path: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Append a host's key to a known_hosts file.

    Creates the file and its folder, readable by the user alone. Raises :class:`OSError`.
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


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
