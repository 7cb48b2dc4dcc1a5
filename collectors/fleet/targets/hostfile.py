"""Hosts named in a file: one a line, as OpenMPI, DeepSpeed, MPICH and plain lists have them.

``host``, ``host slots=8 max_slots=8``, ``user@host``, ``host user=name port=2222``, ``host:8`` and sets such as
``gpu[01-08]``; ``#`` begins a comment. A number behind a colon is a count of processes (MPICH), unless no machine has
so many: 22 and from 1024 on it is a port.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.targets.error import TargetError

_NUMBERED = re.compile(r"([^:]+):([0-9]+)\Z")
_PAIR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=\S*\Z")
_SPACED = re.compile(r"\s*=\s*")


class HostEntry(NamedTuple):
    """One line of a hostfile."""

    line: int
    word: str
    """Host or set, perhaps with ``user@``."""
    user: str | None
    port: int | None


def read_hostfile(path: Path) -> list[HostEntry]:
    """Entries of a hostfile in order. Raises :class:`TargetError` with file and line."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TargetError(f"{path}: cannot be read: {reason}") from None
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = _SPACED.sub("=", line.partition("#")[0].strip()).split()
        if words:
            entries.append(_entry(number, words, f"{path}:{number}"))
    return entries


def _entry(number: int, words: list[str], place: str) -> HostEntry:
    options: dict[str, str] = {}
    for word in words[1:]:
        if not _PAIR.match(word):
            raise TargetError(f"{place}: {word!r} is neither a host alone nor an option such as slots=8")
        name, _, value = word.partition("=")
        options[name.lower().replace("-", "_")] = value
    host, port = words[0], options.get("port", "")
    if found := _NUMBERED.match(host):
        host = found[1]
        if found[2] == "22" or len(found[2]) > 5 or int(found[2]) >= 1024:
            port = port or found[2]
    if port and not (port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        raise TargetError(f"{place}: {port!r} is no port")
    user = options.get("user") or options.get("username") or options.get("user_name")
    return HostEntry(number, host, user, int(port) if port else None)
