"""The nodes that the command line, a host file or a Slurm job names.

A word is ``host``, ``user@host:port``, an alias from the ssh_config, or a set in ClusterShell's notation
(``gpu[001-064,070]``, ``user@gpu[1-4]:2222``). A node named twice counts once.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_HOST = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*\Z")
MOST_NODES = 20_000
"""Nodes that one word may name; more are taken for a typing error."""

_COMMA = re.compile(r",(?![^\[]*\])")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_NUMBERS = re.compile(r"\s*([0-9]{1,9})(?:-([0-9]{1,9})(?:/[0-9]{1,9})?)?\s*")
"""A part of a bracket. ClusterShell also accepts other digits and signs, and holds all numbers of a range in memory."""
_PORT = re.compile(r"(.*[^:]):([0-9]+)\Z")


class TargetError(Exception):
    """The nodes cannot be determined; the text is one line and names the wrong word, or the file and line."""


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
    """All named nodes, in order; this machine if none is named.

    ``more`` are node sets from a scheduler. Reads ``hostfile``. Raises :class:`TargetError`.
    """
    found = list(parse(words))
    if hostfile is not None:
        found += read_hostfile(hostfile)
    found += parse(more)
    if not found:
        return (this_machine(),)
    distinct: dict[tuple[str | None, str, int | None], Target] = {}
    for target in found:
        distinct.setdefault((target.user, target.host, target.port), target)
    return tuple(distinct.values())


def parse(words: Iterable[str]) -> Iterator[Target]:
    """The targets that words name, with node sets expanded. Raises :class:`TargetError`."""
    for word in words:
        for part in _COMMA.split(word):
            yield from _parse_part(part.strip().removeprefix("pod/"), word)  # as kubectl get --output=name writes it


def _parse_part(part: str, word: str) -> Iterator[Target]:
    user, at, rest = part.rpartition("@")
    if at and not _USER.match(user):
        raise TargetError(f"{word!r}: {user!r} is no user name")
    host, port = _split_port(rest, word)
    address = host.startswith("[") and ":" in host
    for name in [host[1:-1]] if address else _unfold(host, word) if "[" in host or "]" in host else [host]:
        if not _HOST.match(name):
            raise TargetError(f"{word!r} is no host name" if name == word else f"{word!r}: {name!r} is no host name")
        shown = f"[{name}]" if ":" in name and port is not None else name
        shown = shown if port is None else f"{shown}:{port}"
        yield Target(f"{user}@{shown}" if user else shown, name, user or None, port)


def _split_port(rest: str, word: str) -> tuple[str, int | None]:
    """Host and port; an IPv6 address with a port needs brackets."""
    found = _PORT.match(rest)
    if found is None or (":" in found[1] and not found[1].startswith("[")):
        return rest, None
    if len(found[2]) > 5 or not 0 < int(found[2]) < 65536:
        raise TargetError(f"{word!r}: {found[2][:20]} is no port")
    return found[1], int(found[2])


def _unfold(text: str, word: str) -> list[str]:
    wrong = TargetError(f"{word[:60]!r} is no set of nodes such as node[1-8], or names more than {MOST_NODES:,}")
    if not _HOST.match(_BRACKETS.sub("0", text)):  # ClusterShell's operators and groups may run commands: refused
        raise wrong
    count = 1
    for inside in _BRACKETS.findall(text):
        ranges = [_NUMBERS.fullmatch(part) for part in inside.split(",")]
        count *= sum(abs(int(found[2] or found[1]) - int(found[1])) + 1 for found in ranges if found)
        if not all(ranges) or count > MOST_NODES:
            raise wrong
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        return [str(name) for name in NodeSet(text)]
    except (NodeSetException, ValueError, AssertionError) as error:  # ClusterShell raises all three for odd ranges
        raise TargetError(f"{word!r} is no set of nodes: {error}") from None


def read_hostfile(path: Path) -> list[Target]:
    """The targets of a hostfile in order: an OpenMPI or DeepSpeed hostfile or a plain list.

    A line is ``host``, ``host slots=8``, ``user@host``, ``host:port`` or a set such as ``gpu[01-08]``; ``#`` begins a
    comment. Raises :class:`TargetError` with file and line.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TargetError(f"{path}: cannot be read: {reason}") from None
    found: list[Target] = []
    for number, line in enumerate(text.splitlines(), start=1):
        host = next(iter(line.partition("#")[0].split()), "")
        try:
            found += parse([host] if host else [])
        except TargetError as error:
            raise TargetError(f"{path}:{number}: {error}") from None
    if not found:
        raise TargetError(f"{path} names no host")
    return found
