"""The node itself."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Union


class HostSample(NamedTuple):
    """The host as a whole: its size, and how much of it is in use."""

    cpus: int
    memory_total: int
    booted: float
    versions: Dict[str, str]
    """``nvidia`` and ``ofed``, as far as files tell."""
    load: float
    memory_available: int
    pressure_io: Optional[float]
    """Share of the last 10 s in which some task waited for I/O, per cent (/proc/pressure)."""


class Reading(NamedTuple):
    """What a source reads of one thing, where that needs no kind of its own: shown with the node, at hand for rules."""

    source: str
    of: str
    """The thing: a path, a device."""
    values: Dict[str, Union[int, float, str]]
    """By name, in basic units."""
