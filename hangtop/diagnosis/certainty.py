"""How sure a finding is: proven, likely or possible, by who saw it; and the number that each has earned.

``proven``: the culprit was seen at its place, and an independent witness says the same, or the thing itself was read
where nothing can be mistaken (a process state, an error of the driver). ``likely``: one witness, or two of which one
only fits. ``possible``: it fits what was seen, and other things do, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import floor
from types import MappingProxyType
from typing import Literal, get_args

from hangtop.diagnosis.tables.borne_out import RIGHT_OF

Certainty = Literal["proven", "likely", "possible"]


def succession(right: int, of: int) -> float:
    """How likely the next one is right, when so many of so many were: Laplace's rule of succession, 0.5 for none."""
    return (right + 1) / (of + 2)


CONFIDENCE: Mapping[Certainty, float] = MappingProxyType(
    {word: floor(100 * succession(*RIGHT_OF[word])) / 100 for word in get_args(Certainty)}
)
"""What scripts get for each word: what the suites bear out, rounded down, so that nothing is ever certain."""

READ_ITSELF = 0.95
"""Weight of what is read at its source and cannot be mistaken: it needs no second witness."""
PROVEN, LIKELY = 0.75, 0.65
"""Least weight of a rule's own proof for these words."""
_NO_WITNESS = frozenset(("watch", "environment", "ranks", "settings", "topology"))
"""Sources that set the scene: they saw nobody do anything."""
_FIRST_WORD = re.compile(r"[^ :,(]+")


def witnesses(sources: Iterable[str]) -> frozenset[str]:
    """Independent witnesses among the sources of evidence: py-spy, the kernel, a GPU, a log file, a recorder."""
    found = set()
    for source in sources:
        if source.startswith("/proc/"):
            found.add("/proc")
            continue
        word = _FIRST_WORD.match(source)
        if word is not None and word.group() not in _NO_WITNESS:
            found.add(word.group())
    return frozenset(found)


def certainty_of(weight: float, sources: Iterable[str]) -> Certainty:
    """The word for a finding whose rule gives it this weight (0 to 1) and whose evidence has these sources."""
    if weight >= READ_ITSELF or (weight >= PROVEN and len(witnesses(sources)) > 1):
        return "proven"
    return "likely" if weight >= LIKELY else "possible"
