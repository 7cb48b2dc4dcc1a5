"""The nodes that the command line, a host file or a Slurm job names.

A word is ``host``, ``user@host:port``, an alias of the ssh_config, or a set as ClusterShell writes them
(``gpu[001-064,070]``, ``user@gpu[1-4]:2222``, ``@group``). A node named twice counts once.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

_HOST = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*\Z")
MOST_NODES = 20_000
"""Nodes that one word may name; more is taken for a typing error."""

MOST_DIGITS = 18

_LONG_NUMBER = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")
_SET = re.compile(r"[\[\]]|\A@|[!&^]")
_OPERATORS = re.compile(r"[!&^]")
_COMMA = re.compile(r",(?![^\[]*\])")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_NUMBERS = re.compile(r"\s*[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?\s*")
"""A part of a bracket. ClusterShell accepts other digits and signs too, and uses all memory for some of them."""
_NUMBERED = re.compile(r"([^:]+):([0-9]+)\Z")
_PAIR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=\S*\Z")
_SPACED = re.compile(r"\s*=\s*")
_GROUP = re.compile(r"@[A-Za-z0-9_:.*-]*")
_PORT = re.compile(r"(.*[^:]):([0-9]+)\Z")


class TargetError(Exception):
    """The nodes cannot be determined; the text is one line and names the wrong word, or file and line."""


@dataclass(frozen=True, slots=True)
class Target:
    """One node to connect to."""

    name: str
    """The unique name of the node, as the user wrote it."""
    host: str = ""
    """Name or address, looked up in the ssh_config; empty for this machine, which needs no SSH."""
    user: str | None = None
    port: int | None = None

    @property
    def local(self) -> bool:
        """True for this machine."""
        return not self.host


def this_machine() -> Target:
    """The target that needs no SSH."""
    return Target(socket.gethostname().partition(".")[0] or "localhost")


def resolve(words: Sequence[str], *, hostfile: Path | None = None, more: Sequence[str] = ()) -> tuple[Target, ...]:
    """All named nodes, in order; this machine when none is named.

    ``more`` are node sets of a scheduler. Reads ``hostfile``. Raises :class:`TargetError`.
    """
    found = list(parse(words))
    if hostfile is not None:
        found += _of_hostfile(hostfile)
    found += parse(more)
    if not found:
        return (this_machine(),)
    distinct: dict[tuple[str | None, str, int | None], Target] = {}
    for target in found:
        distinct.setdefault((target.user, target.host, target.port), target)
    return tuple(distinct.values())


def parse(words: Iterable[str]) -> Iterator[Target]:
    """Targets of words, with node sets expanded. Raises :class:`TargetError`."""
    for word in words:
        # Operators belong to the set as a whole; a plain list may carry a user and a port in each of its parts.
        for part in [word] if _OPERATORS.search(word) else _COMMA.split(word):
            yield from _parse_part(part.strip(), word)


def _parse_part(part: str, word: str) -> Iterator[Target]:
    user, at, rest = part.rpartition("@") if not part.startswith("@") else ("", "", part)
    if at and not _USER.match(user):
        raise TargetError(f"{word!r}: {user!r} is no user name")
    host, port = _split_port(rest, word)
    address = host.startswith("[") and ":" in host
    for name in [host[1:-1] if address else host] if address or not _SET.search(host) else _unfold(host, word):
        if not _HOST.match(name):
            raise TargetError(f"{word!r} is no host name" if name == word else f"{word!r}: {name!r} is no host name")
        shown = f"[{name}]" if ":" in name and port is not None else name
        shown = shown if port is None else f"{shown}:{port}"
        yield Target(f"{user}@{shown}" if user else shown, name, user or None, port)


def _split_port(rest: str, word: str) -> tuple[str, int | None]:
    """Host and port; an address of version 6 needs brackets to have one."""
    found = _PORT.match(rest)
    if found is None or (":" in found[1] and not found[1].startswith("[")):
        return rest, None
    if len(found[2]) > MOST_DIGITS or not 0 < int(found[2]) < 65536:
        raise TargetError(f"{word!r}: {found[2]} is no port")
    return found[1], int(found[2])


def _unfold(text: str, word: str) -> list[str]:
    # A group's name goes into the shell command that ClusterShell is configured with.
    if "@" in _GROUP.sub("", text):
        raise TargetError(f"{word!r} names no group")
    if not all(_NUMBERS.fullmatch(part) for inside in _BRACKETS.findall(text) for part in inside.split(",")):
        raise TargetError(f"{word[:60]!r} is no set of nodes: brackets hold numbers and ranges")
    if _LONG_NUMBER.search(text):  # Python reads no number of thousands of digits, and ClusterShell leaves that to it
        raise TargetError(f"{word[:60]!r} has a number of more than {MOST_DIGITS} digits")
    # ClusterShell would hold all numbers of a range in memory.
    if any(int(end) - int(begin) >= MOST_NODES for begin, end in _RANGE.findall(text)):
        raise TargetError(f"{word!r} names more than {MOST_NODES} nodes")
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    try:
        names = [str(name) for name in islice(NodeSet(text), MOST_NODES + 1)]
    except (NodeSetException, ValueError, AssertionError) as error:  # of its own for odd ranges
        raise TargetError(f"{word!r} is no set of nodes: {error}") from None
    except (GroupResolverError, GroupSourceError) as error:
        raise TargetError(f"{word!r}: ClusterShell knows no such group here: {error}") from None
    if not names:
        raise TargetError(f"{word!r} names no node")
    if len(names) > MOST_NODES:
        raise TargetError(f"{word!r} names more than {MOST_NODES} nodes")
    return names


def _of_hostfile(path: Path) -> Iterator[Target]:
    entries = read_hostfile(path)
    if not entries:
        raise TargetError(f"{path} names no host")
    for entry in entries:
        try:
            targets = list(parse([entry.word]))
        except TargetError as error:
            raise TargetError(f"{path}:{entry.line}: {error}") from None
        if entry.user is not None and not _USER.match(entry.user):
            raise TargetError(f"{path}:{entry.line}: {entry.user!r} is no user name")
        for target in targets:
            yield replace(target, user=target.user or entry.user, port=target.port or entry.port)


class HostEntry(NamedTuple):
    """One line of a hostfile."""

    line: int
    word: str
    """Host or set, perhaps with ``user@``."""
    user: str | None
    port: int | None


def read_hostfile(path: Path) -> list[HostEntry]:
    """Entries of a hostfile in order, as OpenMPI, DeepSpeed, MPICH and plain lists have them.

    ``host``, ``host slots=8 max_slots=8``, ``user@host``, ``host user=name port=2222``, ``host:8`` and sets such as
    ``gpu[01-08]``; ``#`` begins a comment. A number behind a colon is a count of processes (MPICH), unless no machine
    has so many: 22 and from 1024 on it is a port. Raises :class:`TargetError` with file and line.
    """
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
