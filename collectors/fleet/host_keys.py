"""Whether a host is the one that it was: known_hosts applied as OpenSSH applies it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from collectors.fleet.known_hosts import Known, KnownHosts, KnownKey
from collectors.fleet.ssh_settings import HostSettings

Standing = Literal["known", "unknown", "changed"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What known_hosts says about a key that a host showed."""

    standing: Standing
    place: str = ""
    """``file:line`` that it contradicts, or that knows the host by a key of another kind."""


class HostKeys:
    """All known_hosts files in use, each read once and again only after it has changed."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, ...], tuple[tuple[int, ...], KnownHosts]] = {}
        self._once: set[tuple[str, int, bytes]] = set()
        self._imported: dict[str, asyncssh.SSHKey | None] = {}
        self._orders: dict[tuple[str | bytes, ...], list[str]] = {}
        """Orders of algorithms that were asked for before: those of thousands of hosts are the same few."""

    def read(self, settings: HostSettings) -> KnownHosts:
        """Entries of the files that count for a host, read anew if a file has changed."""
        paths = _paths(settings)
        stamps = tuple(_stamp(path) for path in paths)
        held = self._files.get(paths)
        if held is None or held[0] != stamps:
            held = (stamps, KnownHosts(paths))
            self._files[paths] = held
        return held[1]

    def trusted(
        self, settings: HostSettings
    ) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """Keys of a host, of authorities that may vouch for it, and revoked ones, as asyncssh wants them."""
        self.read(settings)
        known = self._look(settings)
        return self._keys(known.keys), self._keys(known.authorities), self._keys(known.revoked)

    def algorithms(self, settings: HostSettings) -> list[str]:
        """Algorithms to ask a host for, those by which it is known first: it shows the key that can be checked."""
        known = self._look(settings)
        first = [name for key in self._keys(known.keys) for name in key.sig_algorithms]
        kinds = ("authorities" if known.authorities else "", *first)
        if kinds not in self._orders:
            certified = get_default_certificate_algs() if known.authorities else []
            names = dict.fromkeys([*certified, *first, *get_default_public_key_algs()])
            self._orders[kinds] = [name.decode() for name in names]
        return self._orders[kinds]

    def judge(self, settings: HostSettings, key: asyncssh.SSHKey) -> Judgement:
        """Judge a key that is neither trusted nor revoked."""
        if settings.trust_loopback and _is_loopback(settings.hostname):
            return Judgement("known")
        if (settings.known_as, settings.port, key.public_data) in self._once:
            return Judgement("known")
        known = self._look(settings)
        kind = key.get_algorithm()
        for entry in known.keys:
            if entry.kind == kind:
                return Judgement("changed", entry.place)
        return Judgement("unknown", known.keys[0].place if known.keys else "")

    def accept(self, settings: HostSettings, key: asyncssh.SSHKey, *, remember: bool) -> None:
        """Trust a key for this run; with ``remember`` write it to the user's file. Raises :class:`OSError`."""
        self._once.add((settings.known_as, settings.port, key.public_data))
        if remember and settings.user_known_hosts:
            text = key.export_public_key("openssh").decode().split()
            path = settings.user_known_hosts[0]
            hosts = self.read(settings)
            hosts.add(path, settings.known_as, settings.port, " ".join(text[:2]), hashed=settings.hash_known_hosts)

    def _look(self, settings: HostSettings) -> Known:
        """What is known as of the last reading: one handshake asks several times."""
        held = self._files.get(_paths(settings))
        hosts = held[1] if held is not None else self.read(settings)
        return hosts.look(settings.known_as, settings.port)

    def _keys(self, entries: Sequence[KnownKey]) -> list[asyncssh.SSHKey]:
        found = []
        for entry in entries:
            text = f"{entry.kind} {entry.blob}"
            if text not in self._imported:
                try:
                    self._imported[text] = asyncssh.import_public_key(text)
                except asyncssh.KeyImportError:
                    self._imported[text] = None  # of a kind that this asyncssh does not know
            if (key := self._imported[text]) is not None:
                found.append(key)
        return found


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Fingerprint as OpenSSH shows it, the kind of key in front."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def _paths(settings: HostSettings) -> tuple[Path, ...]:
    return (*settings.user_known_hosts, *settings.global_known_hosts)


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
