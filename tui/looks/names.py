"""Names of nodes where there is little room: without the domain that all of them share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F]{0,4}:[0-9a-fA-F:.]+")


class ShortNames:
    """Of ``ip-10-0-0-7.eu.internal`` and its like ``ip-10-0-0-7``."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._end = _shared_domain(names)

    @property
    def told(self) -> str:
        """What is left out of all names, for people; empty where nothing is."""
        return f"all names end with {self._end}" if self._end else ""

    def of(self, name: str) -> str:
        """The short one; a name that is none of them stays as it is."""
        return name.removesuffix(self._end)

    def all(self, names: Iterable[str]) -> list[str]:
        """Several of them."""
        return [self.of(name) for name in names]


def _shared_domain(names: Sequence[str]) -> str:
    """``.eu.internal``: the longest end that begins with a dot; nothing where a name is an address."""
    if not names or any(_ADDRESS.fullmatch(name.rpartition("@")[2]) for name in names):
        return ""
    ends = (names[0][dot:] for dot, letter in enumerate(names[0]) if letter == ".")
    return next((end for end in ends if all(name.endswith(end) and name != end for name in names)), "")


WHOLE = ShortNames()
"""Leaves names as they are."""
