"""known_hosts files, each parsed once and again only after a change, and the judgement of host keys.

Plain names are found by a dictionary; patterns and hashed names are tried one after another, once a host. Keys stay
text until one is needed: importing 2,048 keys costs more than a handshake.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import asyncssh

from collectors.fleet.ssh.config import HostSettings

_HASHED = "|1|"
_MARKERS = ("@cert-authority", "@revoked")
_CERTIFICATE = "-cert-v01@openssh.com"
_ALGORITHMS = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip
"""Algorithms of host keys, in the order of preference."""


class KnownKey(NamedTuple):
    """One key of a known_hosts file."""

    kind: str
    """``ssh-ed25519`` …"""
    blob: str
    """Base64, as in the file."""
    marker: str
    """``@cert-authority``, ``@revoked``, or empty."""
    place: str
    """``file:line``."""


class _Hashed(NamedTuple):
    salt: bytes
    digest: bytes
    key: KnownKey


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a host's key by known_hosts."""

    state: Literal["known", "unknown", "changed"]
    place: str = ""
    """``file:line`` of the entry that contradicts the key, or of another key of the host on port 22."""


class HostKeys:
    """Host keys of the known_hosts files, and those accepted for this run."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, ...], tuple[tuple[int, ...], KnownHosts]] = {}
        self._accepted: set[tuple[str, bytes]] = set()

    def read(self, settings: HostSettings) -> KnownHosts:
        """Entries of a host's known_hosts files."""
        stamps = tuple(_stamp(path) for path in settings.known_hosts)
        held = self._files.get(settings.known_hosts)
        if held is None or held[0] != stamps:
            held = (stamps, KnownHosts(settings.known_hosts))
            self._files[settings.known_hosts] = held
        return held[1]

    def authorities(self, settings: HostSettings) -> list[asyncssh.SSHKey]:
        """Keys of certificate authorities that are trusted for a host."""
        names = dict.fromkeys((settings.known_name, settings.known_as))
        entries = (entry for name in names for entry in self.read(settings).look(name))
        return _imported([entry for entry in entries if entry.marker == "@cert-authority"])

    def revoked(self, settings: HostSettings) -> list[asyncssh.SSHKey]:
        """Revoked keys, as host keys and as authorities."""
        return _imported([key for key in self.read(settings).look(settings.known_name) if key.marker == "@revoked"])

    def algorithms(self, settings: HostSettings, *, certificates: bool) -> list[str]:
        """Host key algorithms to propose, those of known keys first, so that the host shows a key that can be checked.

        With ``certificates``, certificate algorithms come before plain keys.
        """
        kinds = {key.kind for key in self.read(settings).look(settings.known_name) if not key.marker}
        plain = sorted(_ALGORITHMS, key=lambda name: ("ssh-rsa" if name.startswith("rsa-") else name) not in kinds)
        return [*(f"{name}{_CERTIFICATE}" for name in _ALGORITHMS if certificates), *plain]

    def judge(self, settings: HostSettings, key: asyncssh.SSHKey) -> Judgement:
        """Judge a host's key as OpenSSH's ``verify_host_key`` does."""
        if (settings.known_name, key.public_data) in self._accepted:
            return Judgement("known")
        judged = self._compare(settings, settings.known_name, key)
        if judged.state == "unknown" and settings.known_name != settings.known_as:
            # A key may be known of the host whatever its port, but one of another port contradicts nothing.
            plain = self._compare(settings, settings.known_as, key)
            return plain if plain.state == "known" else Judgement("unknown", plain.place)
        return judged

    def _compare(self, settings: HostSettings, name: str, key: asyncssh.SSHKey) -> Judgement:
        """Compare a key with the keys of one name: another key makes it ``changed``, also one of another type."""
        entries = [entry for entry in self.read(settings).look(name) if not entry.marker]
        known = [(entry, other) for entry in entries for other in _imported([entry])]
        if any(other == key for _, other in known):
            return Judgement("known")
        for entry, _ in sorted(known, key=lambda pair: pair[1].get_algorithm() != key.get_algorithm()):
            return Judgement("changed", entry.place)
        return Judgement("unknown")

    def accept(self, settings: HostSettings, key: asyncssh.SSHKey, *, remember: bool, hashed: bool = False) -> None:
        """Trust a key for this run; with ``remember`` write it to the user's file. Raises :class:`OSError`."""
        self._accepted.add((settings.known_name, key.public_data))
        if remember and settings.learned is not None:
            text = key.export_public_key("openssh").decode().split()
            self.read(settings).add(settings.learned, settings.known_name, " ".join(text[:2]), hashed=hashed)


class KnownHosts:
    """Entries of some known_hosts files."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._plain: dict[str, list[KnownKey]] = {}
        self._patterns: list[tuple[str, KnownKey]] = []
        self._hashed: list[_Hashed] = []
        self._found: dict[str, tuple[KnownKey, ...]] = {}
        for path in files:
            try:
                data = path.read_bytes()
            except OSError:
                continue  # OpenSSH too takes a file that it cannot read for an empty one
            for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
                self._take(line, f"{path}:{number}")

    def add(self, path: Path, name: str, key: str, *, hashed: bool) -> None:
        """Append a key (``kind base64``) to a file.

        Creates the file and its folder, readable by the user alone. Raises :class:`OSError`.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            ends = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
            line = f"{_hash(name) if hashed else name} {key}\n"
            os.write(handle, (line if ends else f"\n{line}").encode("utf-8", "surrogateescape"))
        finally:
            os.close(handle)
        self._take(line, str(path))
        self._found.clear()

    def look(self, name: str) -> tuple[KnownKey, ...]:
        """Entries of a name in lower case; a host on another port than 22 is named ``[host]:port``."""
        if name not in self._found:
            said = name.encode("utf-8", "surrogateescape")
            found = list(self._plain.get(name, ()))
            found += [key for patterns, key in self._patterns if _matches(name, patterns)]
            found += [key for salt, digest, key in self._hashed if hmac.digest(salt, said, "sha1") == digest]
            self._found[name] = tuple(found)
        return self._found[name]

    def _take(self, line: str, place: str) -> None:
        """Read one line; an invalid line is ignored, as by OpenSSH."""
        words = line.split(None, 4)
        marker = words.pop(0) if words and words[0] in _MARKERS else ""
        if len(words) < 3 or words[0].startswith(("#", "@")):
            return
        names, kind, blob = words[:3]
        key = KnownKey(kind, blob, marker, place)
        if names.startswith(_HASHED):
            self._hashed += _read_hash(names, key)
        elif any(sign in names for sign in "*?!"):
            self._patterns.append((names.lower(), key))
        else:
            for name in dict.fromkeys(names.lower().split(",")):  # twice in one line is still one key
                self._plain.setdefault(name, []).append(key)


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Fingerprint as OpenSSH shows it, the kind of key in front."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


@lru_cache(maxsize=8192)
def _import(text: str) -> asyncssh.SSHKey | None:
    try:
        return asyncssh.import_public_key(text)
    except asyncssh.KeyImportError:
        return None  # a kind that this asyncssh does not know, or no key


def _imported(entries: Sequence[KnownKey]) -> list[asyncssh.SSHKey]:
    keys = (_import(f"{entry.kind} {entry.blob}") for entry in entries)
    return [key for key in keys if key is not None]


def _matches(name: str, patterns: str) -> bool:
    """Whether one of the comma-separated patterns matches and none of those with ``!`` does."""
    parts = [part.strip() for part in patterns.split(",")]
    return any(_expression(part).fullmatch(name) for part in parts if part and not part.startswith("!")) and not any(
        _expression(part[1:]).fullmatch(name) for part in parts if part.startswith("!")
    )


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    # Runs of stars match what one matches, and would take exponential time.
    parts = re.split(r"(\*+|\?)", pattern)
    return re.compile(
        "".join(".*" if part.startswith("*") else "." if part == "?" else re.escape(part) for part in parts)
    )


def _read_hash(text: str, key: KnownKey) -> Iterator[_Hashed]:
    salt, _, digest = text.removeprefix(_HASHED).partition("|")
    try:
        yield _Hashed(base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True), key)
    except (binascii.Error, ValueError):
        return


def _hash(name: str) -> str:
    salt = os.urandom(hashlib.sha1(usedforsecurity=False).digest_size)
    digest = hmac.digest(salt, name.encode("utf-8", "surrogateescape"), "sha1")
    return f"{_HASHED}{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
