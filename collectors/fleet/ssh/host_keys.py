"""Whether a host is the one that it was: known_hosts applied as OpenSSH applies it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh
from asyncssh.public_key import (
    CERT_TYPE_HOST,
    SSHOpenSSHCertificate,
    decode_ssh_certificate,
    get_default_certificate_algs,
    get_default_public_key_algs,
)

from collectors.fleet.ssh.known_hosts import Known, KnownHosts, KnownKey
from collectors.fleet.ssh.patterns import match_list
from collectors.fleet.ssh.revoked_keys import RevokedKeys
from collectors.fleet.ssh.settings import HostSettings

KeyState = Literal["known", "unknown", "changed", "revoked"]
_CERT = "-cert-v01@openssh.com"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What known_hosts says about a key that a host showed."""

    state: KeyState
    place: str = ""
    """``file:line`` that it contradicts or is revoked by, or that knows the host without its port by another key."""
    everywhere: bool = False
    """Revoked for every host: checking that is switched off lets nobody in."""


class HostKeys:
    """All known_hosts files in use, each read once and again only after it has changed."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, ...], tuple[tuple[int, ...], KnownHosts]] = {}
        self._revoked = RevokedKeys()
        self._once: set[tuple[str, bytes]] = set()
        self._imported: dict[str, asyncssh.SSHKey | None] = {}
        self._orders: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
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

    def algorithms(self, settings: HostSettings) -> list[str]:
        """Algorithms to ask a host for, those by which it is known first: it shows the key that can be checked."""
        known = self._files_of(settings).look(settings.known_name)
        kinds = tuple(key.get_algorithm() for _, key in self._keys(known.keys))
        vouched = bool(known.authorities)
        if (vouched, kinds) not in self._orders:
            every = [name.decode() for name in (*get_default_certificate_algs(), *get_default_public_key_algs())]
            first = [name for name in every if _kind(name) in kinds or (vouched and name.endswith(_CERT))]
            self._orders[vouched, kinds] = list(dict.fromkeys([*first, *every]))
        return self._orders[vouched, kinds]

    def judge(self, settings: HostSettings, key: asyncssh.SSHKey) -> Judgement:
        """Judge a key that a host showed (``verify_host_key`` of OpenSSH's sshconnect.c)."""
        if place := self._revoked.revoked_by(settings.revoked_keys, [key.public_data]):
            return Judgement("revoked", place, everywhere=True)
        if settings.trust_loopback and _is_loopback(settings.hostname):
            return Judgement("known")
        if (settings.known_name, key.public_data) in self._once:
            return Judgement("known")
        hosts = self._files_of(settings)
        judged = self._compare(hosts.look(settings.known_name), key)
        if judged.state == "unknown" and settings.known_name != settings.known_as:
            # A key may be known of the host whatever its port, but one of another port contradicts nothing.
            plain = self._compare(hosts.look(settings.known_as), key)
            ignored = plain.state == "revoked" and settings.strict == "no"
            return plain if plain.state == "known" or ignored else Judgement("unknown", plain.place)
        return judged

    def judge_certificate(self, settings: HostSettings, certificate: asyncssh.SSHCertificate) -> Judgement:
        """Judge a certificate: one that is not known may still hold a key that is."""
        hosts = self._files_of(settings)
        parts = [key.public_data for key in (certificate.key, _signer(certificate)) if key is not None]
        if place := self._revoked.revoked_by(settings.revoked_keys, parts):
            return Judgement("revoked", place, everywhere=True)
        for name in dict.fromkeys((settings.known_name, settings.known_as)):
            known = hosts.look(name)
            signed = [key for key in (certificate.key, _signer(certificate)) if key is not None]
            for entry, key in self._keys(known.revoked):
                if key in signed and (name == settings.known_name or settings.strict == "no"):
                    return Judgement("revoked", entry.place)
            if any(key == _signer(certificate) for _, key in self._keys(known.authorities)):
                return Judgement("known" if _is_valid_for(certificate, settings.known_as) else "unknown")
        return Judgement("unknown")

    def _compare(self, known: Known, key: asyncssh.SSHKey) -> Judgement:
        """Compare a key with those of one name: any other key makes it changed, be it of another type."""
        for entry, other in self._keys(known.revoked):
            if other == key:
                return Judgement("revoked", entry.place)
        others = [(entry, other) for entry, other in self._keys(known.keys)]
        if any(other == key for _, other in others):
            return Judgement("known")
        same = [entry for entry, other in others if other.get_algorithm() == key.get_algorithm()]
        for entry in [*same, *(entry for entry, _ in others)]:
            return Judgement("changed", entry.place)
        return Judgement("unknown")

    def accept(self, settings: HostSettings, key: asyncssh.SSHKey, *, remember: bool) -> None:
        """Trust a key for this run; with ``remember`` write it to the user's file. Raises :class:`OSError`."""
        self._once.add((settings.known_name, key.public_data))
        if remember and settings.user_known_hosts:
            text = key.export_public_key("openssh").decode().split()
            hosts = self.read(settings)
            path = settings.user_known_hosts[0]
            hosts.add(path, settings.known_name, " ".join(text[:2]), hashed=settings.hash_known_hosts)

    def _files_of(self, settings: HostSettings) -> KnownHosts:
        """What is known as of the last reading: one handshake asks several times."""
        held = self._files.get(_paths(settings))
        return held[1] if held is not None else self.read(settings)

    def _keys(self, entries: Sequence[KnownKey]) -> Iterator[tuple[KnownKey, asyncssh.SSHKey]]:
        for entry in entries:
            text = f"{entry.kind} {entry.blob}"
            if text not in self._imported:
                try:
                    self._imported[text] = asyncssh.import_public_key(text)
                except asyncssh.KeyImportError:
                    self._imported[text] = None  # of a kind that this asyncssh does not know, or no key at all
            if (key := self._imported[text]) is not None:
                yield entry, key


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Fingerprint as OpenSSH shows it, the kind of key in front."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def certificate_of(data: bytes) -> asyncssh.SSHCertificate | None:
    """The certificate in what a host showed; None for a plain key."""
    try:
        return decode_ssh_certificate(data)
    except asyncssh.KeyImportError:
        return None


def _signer(certificate: asyncssh.SSHCertificate) -> asyncssh.SSHKey | None:
    """Who vouches for it; None for a kind of certificate that known_hosts has no authorities for."""
    return certificate.signing_key if isinstance(certificate, SSHOpenSSHCertificate) else None


def _is_valid_for(certificate: asyncssh.SSHCertificate, host: str) -> bool:
    """Whether it is a host's, of this time, and for this name; one that names none is for all."""
    if not isinstance(certificate, SSHOpenSSHCertificate):
        return False
    try:
        certificate.validate(CERT_TYPE_HOST, None)
    except ValueError:
        return False
    names = [name.lower() for name in certificate.principals]
    return not names or any(match_list(host, name) for name in names)


def _kind(algorithm: str) -> str:
    """Type of the key that an algorithm signs with."""
    plain = algorithm.removesuffix(_CERT)
    if plain != algorithm and plain.startswith("sk-"):
        plain += "@openssh.com"
    return "ssh-rsa" if plain.startswith("rsa-sha2-") else plain


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
