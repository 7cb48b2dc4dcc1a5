"""Names of nodes where there is little room: without what all of them have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tui.looks.text import CUT, cells

LONG = 14
"""Cells of the longest name from which on what all begin with is left out, too."""
WORTH = 5
"""Cells that must be saved by that."""
_ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F]{0,4}:[0-9a-fA-F:.]+")
_BOUNDARY = re.compile(r"[-_.@]")


class ShortNames:
    """Of ``ip-10-0-0-7.eu.internal`` and its like ``ip-10-0-0-7``; of ``site-rack7-gpu-0012`` ``…rack7-gpu-0012``.

    A domain that all names share is left out, and of long names the words that all begin with. Each name stays
    different from the others.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._end = _shared_domain(names)
        hosts = [name.removesuffix(self._end) for name in names]
        self._begin = _shared_beginning(hosts)

    @property
    def told(self) -> str:
        """What is left out of all names, for people; empty where nothing is."""
        left = [f"{what} {text}" for what, text in (("begin with", self._begin), ("end with", self._end)) if text]
        return f"all names {' and '.join(left)}" if left else ""

    def of(self, name: str) -> str:
        """The short one; a name that is none of them stays as it is."""
        host = name.removesuffix(self._end) if self._end else name
        if self._begin and host.startswith(self._begin):
            return CUT + host.removeprefix(self._begin)
        return host

    def all(self, names: Iterable[str]) -> list[str]:
        """Several of them."""
        return [self.of(name) for name in names]


def _shared_domain(names: Sequence[str]) -> str:
    """``.eu.internal``: the longest end that begins with a dot; nothing where a name is an address."""
    if not names or any(_ADDRESS.fullmatch(name.rpartition("@")[2]) for name in names):
        return ""
    end = _begin_of_all([name[::-1] for name in names])[::-1]
    dot = end.find(".", len(end) == min(map(len, names)))  # something must be left of each
    return end[dot:] if dot >= 0 else ""


def _shared_beginning(hosts: Sequence[str]) -> str:
    """``site-``: whole words; nothing where that saves little, or one name is all of it."""
    if len(hosts) < 2 or max(map(cells, hosts)) <= LONG:
        return ""
    begin = _begin_of_all(hosts)
    ends = [found.end() for found in _BOUNDARY.finditer(begin)]
    if ends and any(host[ends[-1] :].isdecimal() for host in hosts):
        ends.pop()  # a mere number says little: the word before it stays
    begin = begin[: ends[-1]] if ends else ""
    return begin if cells(begin) >= WORTH and all(len(host) > len(begin) for host in hosts) else ""


def _begin_of_all(texts: Sequence[str]) -> str:
    """What all begin with: the first and the last in order differ the earliest."""
    first, last = min(texts), max(texts)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:same]


WHOLE = ShortNames()
"""Leaves names as they are."""
