"""Which nodes are meant: words of the command line, a hostfile, a Slurm job.

A word is ``host``, ``user@host:port``, an alias of the ssh_config, or a set as ClusterShell writes them
(``gpu[001-064,070]``, ``user@gpu[1-4]:2222``, ``@group``). A node that is named twice counts once.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.fleet.target_error import TargetError

__all__ = ["Target", "TargetError", "parse", "resolve", "this_machine"]

_HOST = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*\Z")
MOST_NODES = 20_000
"""Nodes that one range may name: more is a slip of the finger."""

_SET = re.compile(r"[\[\]]|\A@|[!&^]")
_OPERATORS = re.compile(r"[!&^]")
_COMMA = re.compile(r",(?![^\[]*\])")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_PLAIN_SET = re.compile(r"((?:[^\[\]@!&^]*[^\[\]@!&^0-9])?)\[([0-9,-]+)\]((?:[^\[\]@!&^0-9][^\[\]@!&^]*)?)\Z")
_GROUP = re.compile(r"@[A-Za-z0-9_:.*-]*")
_PORT = re.compile(r"(.*[^:]):([0-9]+)\Z")


@dataclass(frozen=True, slots=True)
class Target:
    """One node to connect to."""

    name: str
    """As the user wrote it, and unique: everything about the node is filed under it."""
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


def resolve(words: Sequence[str], *, hostfile: Path | None = None, slurm: str | None = None) -> tuple[Target, ...]:
    """All nodes meant, in the order in which they were named; this machine when nothing names any.

    Reads ``hostfile`` and asks Slurm, so it blocks. Raises :class:`TargetError`.
    """
    found = list(parse(words))
    if hostfile is not None:
        found += _of_hostfile(hostfile)
    if slurm is not None:
        from collectors.fleet.slurm import nodes_of_job

        found += parse([nodes_of_job(slurm)])
    if not found:
        return (this_machine(),)
    distinct: dict[tuple[str | None, str, int | None], Target] = {}
    for target in found:
        distinct.setdefault((target.user, target.host, target.port), target)
    return tuple(distinct.values())


def parse(words: Iterable[str]) -> Iterator[Target]:
    """Targets of words, sets unfolded. Raises :class:`TargetError`."""
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
    port = int(found[2])
    if not 0 < port < 65536:
        raise TargetError(f"{word!r}: {port} is no port")
    return found[1], port


def _unfold(text: str, word: str) -> list[str]:
    # A group's name goes into the shell command that ClusterShell is configured with.
    if "@" in _GROUP.sub("", text):
        raise TargetError(f"{word!r} names no group")
    # ClusterShell would hold all numbers of a range in memory.
    if any(int(end) - int(begin) >= MOST_NODES for begin, end in _RANGE.findall(text)):
        raise TargetError(f"{word!r} names more than {MOST_NODES} nodes")
    if plain := _unfold_plain(text):
        return plain
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # 30 ms that what is usual need not cost

    try:
        names = [str(name) for name in NodeSet(text)]
    except NodeSetException as error:
        raise TargetError(f"{word!r} is no set of nodes: {error}") from None
    if not names:
        raise TargetError(f"{word!r} names no node")
    return names


def _unfold_plain(text: str) -> list[str]:
    """Names of a set with one range of numbers that are written alike, ``gpu[001-064,070]``; of any other set none."""
    found = _PLAIN_SET.match(text)
    if found is None:
        return []
    before, inside, after = found.groups()
    words = re.findall(r"[0-9]+", inside)
    width = len(words[0]) if any(word.startswith("0") and word != "0" for word in words) else 0
    if width and any(len(word) != width for word in words):
        return []
    numbers: set[int] = set()
    for part in inside.split(","):
        begin, dash, end = part.partition("-")
        end = end if dash else begin
        if not (begin.isdecimal() and end.isdecimal() and int(begin) <= int(end)):
            return []
        numbers.update(range(int(begin), int(end) + 1))
    return [f"{before}{number:0{width}}{after}" for number in sorted(numbers)]


def _of_hostfile(path: Path) -> Iterator[Target]:
    from collectors.fleet.hostfile import read_hostfile

    entries = read_hostfile(path)
    if not entries:
        raise TargetError(f"{path} names no host")
    for entry in entries:
        try:
            targets = list(parse([entry.word]))
        except TargetError as error:
            raise TargetError(f"{path}:{entry.line}: {error}") from None
        for target in targets:
            yield replace(target, user=target.user or entry.user, port=target.port or entry.port)
