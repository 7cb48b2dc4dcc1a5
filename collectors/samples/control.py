"""From here to the node."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class Settings(NamedTuple):
    """What the node side should do; sent whole at start and whenever it changes, on the control line."""

    interval: float
    phase: float
    """Fraction of the interval at which this node ticks, so that nodes spread over it."""
    job: Optional[List[str]]
    """``[KEY, VALUE]``: only ranks whose environment has it."""
    log_globs: List[str]
    on_view: List[str]
    """Paths whose raw lines are wanted; ``*`` is every followed file, sampled."""
    not_mine: List[str]
    """``file_id`` of files on shared storage that another node reads."""
    sudo: bool = False
    """The user lets ``sudo -n`` be tried where this login may not read what it should."""


class Lent(NamedTuple):
    """Something that the node side said it wants."""

    name: str
    content: str
    """Base64 of zlib."""
