"""known_hosts, read once for all nodes and looked up as OpenSSH looks it up.

Plain names are found by a dictionary; patterns and hashed names are tried one after another. Keys stay text until one
of them is needed: importing 2,048 of them would cost more than a handshake does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from collectors.fleet.ssh.patterns import is_plain, match_list

Marker = Literal["", "cert-authority", "revoked"]
_MARKERS: dict[str, Marker] = {"@cert-authority": "cert-authority", "@revoked": "revoked"}
_HASHED = "|1|"


class KnownKey(NamedTuple):
    """One key of a known_hosts file."""

    kind: str
    """``ssh-ed25519`` …"""
    blob: str
    """Base64, as in the file."""
    marker: Marker
    place: str
    """``file:line``."""


class Known(NamedTuple):
    """What is known of a host."""

    keys: tuple[KnownKey, ...]
    authorities: tuple[KnownKey, ...]
    revoked: tuple[KnownKey, ...]


class _Hashed(NamedTuple):
    salt: bytes
    digest: bytes
    key: KnownKey


class KnownHosts:
    """Entries of some known_hosts files."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._plain: dict[str, list[KnownKey]] = {}
        self._patterns: list[tuple[str, KnownKey]] = []
        self._hashed: list[_Hashed] = []
        self._found: dict[str, Known] = {}
        for path in files:
            try:
                data = path.read_bytes()
            except OSError:
                continue  # OpenSSH too takes a file that it cannot read for an empty one
            for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
                self._take(line, f"{path}:{number}")

    def add(self, path: Path, name: str, key: str, *, hashed: bool) -> None:
        """Append a key (``kind base64``) to a file, and know it from now on.

        Makes the file and its folder, readable by the user alone. Raises :class:`OSError`.
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

    def look(self, name: str) -> Known:
        """Everything said about a name in lower case; a host on another port than 22 is called ``[host]:port``."""
        if name in self._found:
            return self._found[name]
        found = list(self._plain.get(name, ()))
        found += [key for patterns, key in self._patterns if match_list(name, patterns)]
        said = name.encode("utf-8", "surrogateescape")
        found += [key for salt, digest, key in self._hashed if hmac.digest(salt, said, "sha1") == digest]
        self._found[name] = known = Known(
            tuple(key for key in found if not key.marker),
            tuple(key for key in found if key.marker == "cert-authority"),
            tuple(key for key in found if key.marker == "revoked"),
        )
        return known

    def _take(self, line: str, place: str) -> None:
        """Read one line; one that is none is passed over, as OpenSSH does."""
        words = line.split(None, 3)
        if not words or words[0].startswith("#"):
            return
        marker: Marker = ""
        if words[0].startswith("@"):
            if words[0] not in _MARKERS:
                return
            marker = _MARKERS[words[0]]
            words = words[1:]
        if len(words) < 3:
            return
        names, kind, blob = words[:3]
        key = KnownKey(kind, blob.split()[0], marker, place)
        if names.startswith(_HASHED):
            self._hashed += _read_hash(names, key)
        elif all(is_plain(name) for name in names.split(",")):
            for name in dict.fromkeys(names.lower().split(",")):  # twice in one line is still one key
                self._plain.setdefault(name, []).append(key)
        else:
            self._patterns.append((names.lower(), key))


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
