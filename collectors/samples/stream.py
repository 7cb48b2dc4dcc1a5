"""Samples of every stream: hello, ticks, state of sources, faults; and the messages that go to the node."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class Hello(NamedTuple):
    """First line of a stream: the node and its node side."""

    python: str
    """``3.11.7``."""
    hostname: str
    boot_id: str
    machine: str
    kernel: str
    pid: int
    """The node side's own pid, in its PID namespace."""
    clock: float
    wants: List[str] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """Names of resources that the node side can use and that the payload did not include; see :class:`Lent`."""
    narrowed: List[str] = []  # noqa: RUF012
    """Variables in the node side's environment that make it see another machine than the real one."""


class Tick(NamedTuple):
    """Last line of a flush; the samples before it belong to this tick. Sent every tick, even when nothing changed."""

    seq: int
    clock: float
    took: float
    cpu: float
    """CPU seconds of the node side and its ended children since start."""
    rss: int


class SourceState(NamedTuple):
    """State of one source; sent when it changes."""

    source: str
    state: str
    """``ok``, ``absent`` (nothing to read here), ``denied`` (no right), ``late`` (over its deadline), ``failed``."""
    why: str
    since: float


class Fault(NamedTuple):
    """An error on the node side that cost one sample, not the source."""

    source: str
    text: str
    times: int


class Settings(NamedTuple):
    """Settings of the node side; sent whole at start and on every change, on the control line."""

    interval: float
    phase: float
    """Fraction of the interval at which this node ticks, so that nodes spread over the interval."""
    job: Optional[List[str]]
    """``[KEY, VALUE]``: only ranks with this variable in their environment."""
    log_globs: List[str]
    on_view: List[str]
    """Paths whose raw lines are wanted; ``*`` is every followed file, sampled."""
    not_mine: List[str]
    """``file_id`` of files on shared storage that another node reads."""
    sudo: bool = False
    """The user allows ``sudo -n`` where this login lacks a permission."""


class Lent(NamedTuple):
    """A resource from ``Hello.wants``, sent to the node side."""

    name: str
    content: str
    """Base64 of zlib."""
