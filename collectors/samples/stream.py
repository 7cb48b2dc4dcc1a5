"""What every stream has: who speaks, its ticks, the state of its sources, its faults; and what goes to the node."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class Hello(NamedTuple):
    """First line of a stream: who answers, and with what."""

    python: str
    """``3.11.7``."""
    hostname: str
    boot_id: str
    machine: str
    kernel: str
    pid: int
    """Of the node side itself, in its own PID namespace."""
    clock: float
    wants: List[str] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """Names of what it could use and did not come with the payload; see :class:`Lent`."""


class Tick(NamedTuple):
    """Last line of a flush: what came before belongs to it. Sent every tick, even when nothing changed."""

    seq: int
    clock: float
    took: float
    cpu: float
    """CPU seconds of the node side and its ended children since start."""
    rss: int


class SourceState(NamedTuple):
    """What became of one source; sent when it changes."""

    source: str
    state: str
    """``ok``, ``absent`` (nothing to read here), ``denied`` (no right to), ``late`` (over its deadline), ``failed``."""
    why: str
    since: float


class Fault(NamedTuple):
    """One thing that went wrong on the node side and cost one sample, not the source."""

    source: str
    text: str
    times: int


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
