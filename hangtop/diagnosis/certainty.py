"""How sure a finding is: proven, likely or possible, by who saw it.

``proven``: the culprit was seen at its place, and an independent source says the same, or the thing itself was read
where nothing can be mistaken (a process state, an error of the driver). ``likely``: one source, or two of which one
only fits. ``possible``: it fits what was seen, and other things do, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

Certainty = Literal["proven", "likely", "possible"]


CONFIDENCE: Mapping[Certainty, float] = MappingProxyType({"proven": 0.9, "likely": 0.7, "possible": 0.5})
"""The number that scripts get for each word. Ours: an order, not a measured frequency; see docs/accuracy.md."""

READ_ITSELF = 0.95
"""Weight of what is read at its source and cannot be mistaken: it needs no second source."""
PROVEN, LIKELY = 0.75, 0.65
"""Least weight of a rule's own proof for these words."""
_SCENE = frozenset(("watch", "environment", "ranks", "settings", "topology"))
"""Sources that set the scene: they saw nobody do anything."""
_FIRST_WORD = re.compile(r"[^ :,(]+")


def independent_sources(sources: Iterable[str]) -> frozenset[str]:
    """Independent sources among the sources of evidence: py-spy, the kernel, a GPU, a log file, a recorder."""
    found = set()
    for source in sources:
        if source.startswith("/proc/"):
            found.add("/proc")
            continue
        word = _FIRST_WORD.match(source)
        if word is not None and word.group() not in _SCENE:
            found.add(word.group())
    return frozenset(found)


def certainty_of(weight: float, sources: Iterable[str]) -> Certainty:
    """The word for a finding whose rule gives it this weight (0 to 1) and whose evidence has these sources."""
    if weight >= READ_ITSELF or (weight >= PROVEN and len(independent_sources(sources)) > 1):
        return "proven"
    return "likely" if weight >= LIKELY else "possible"
