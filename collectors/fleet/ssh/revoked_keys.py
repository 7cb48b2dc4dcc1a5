"""RevokedHostKeys of the ssh_config: keys that no host may show, whatever is known of it otherwise."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

_BINARY = b"SSHKRL\n\0"
"""Beginning of a key revocation list (OpenSSH's PROTOCOL.krl)."""


class RevokedKeys:
    """Such files, each read once and again only after it has changed."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[int, str, frozenset[bytes]]] = {}

    def revoked_by(self, path: Path | None, keys: Iterable[bytes]) -> str:
        """The file that revokes one of these keys (as they go over the wire); empty where none does.

        Where it cannot be told, all are revoked, as by OpenSSH: the answer says why.
        """
        if path is None:
            return ""
        try:
            stamp = path.stat().st_mtime_ns
            held = self._files.get(path)
            if held is None or held[0] != stamp:
                held = self._files[path] = (stamp, *_read(path))
        except OSError as error:
            return f"{path}, which cannot be read ({error.strerror})"
        _, wrong, revoked = held
        return wrong or (str(path) if not revoked.isdisjoint(keys) else "")


def _read(path: Path) -> tuple[str, frozenset[bytes]]:
    """Why a file cannot be used, and the keys in it. Raises :class:`OSError`."""
    data = path.read_bytes()
    if data.startswith(_BINARY):
        return f"{path}, whose binary list hangtop cannot read: list the keys as text (one a line)", frozenset()
    found: set[bytes] = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            found.add(base64.b64decode(words[1], validate=True))
        except (IndexError, binascii.Error, ValueError):
            return f"{path}:{number}, which is no public key", frozenset()
    return "", frozenset(found)
