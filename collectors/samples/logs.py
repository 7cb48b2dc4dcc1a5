"""Log files, their lines and events, the kernel's included."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from collectors.samples import Value


class LogFile(NamedTuple):
    """A file that is followed, or one that cannot be."""

    path: str
    file_id: str
    """Device and inode; on a shared file system also its source, so that one node alone reads it."""
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    """``stdout``, ``stderr``, ``nccl``, ``elastic`` or ``extra``."""
    size: int
    shared: str
    """Type and source of a shared file system, ``nfs4 server:/export``; empty on a local one."""
    why: str
    left_out: int = 0
    """Bytes that were not read, because it grew faster than it may be read."""


class LogLines(NamedTuple):
    """New lines of a file that is on view."""

    path: str
    rank: Optional[int]
    at: float
    """When the file was last written; of what was there before it came on view the time in the lines, where they have
    one."""
    lines: List[str]
    skipped: int
    """Lines that were not sent before these (a flood is sampled)."""


class LogEvent(NamedTuple):
    """A line (or block) of a log that says something, in typed form."""

    kind: str
    """``nccl.warn``, ``torch.watchdog_timeout``, ``python.exception``, ``kernel.xid`` …: see ``docs/log-events.md``."""
    at: Optional[float]
    """Time in the line if it has one, else when it was read; None in a file without times."""
    rank: Optional[int]
    """Global rank, when the line or the file's owner tells it."""
    host: str
    pid: Optional[int]
    source: str
    """Path of the file, ``dmesg``, ``nvml``."""
    line: int
    """1-based number of the (first) line in the source; 0 when unknown."""
    text: str
    """Verbatim, at most a few kilobytes."""
    data: Dict[str, Value]


class LogsRead(NamedTuple):
    """How far the logs of a node have been read: what was in them by then has been told.

    A record waits until it is known to be whole, so this is some seconds behind where a log grows.
    """

    at: float


class StepCount(NamedTuple):
    """How far a log says that training is, and whether it went on while the log was followed."""

    path: str
    pid: Optional[int]
    """Whose log it is; None where several processes write it."""
    name: str
    """What is counted: ``step``, ``iteration``, ``update``, ``batch``, ``epoch``, ``bar``."""
    value: Optional[float]
    """The number that was printed last; None while no line counts."""
    at: Optional[float]
    """When that line was written; None where neither the line nor the file tells."""
    grown: int
    """Times that a count was seen to go on since the file is followed. What was in it before does not count."""
    every: Optional[float] = None
    longest: Optional[float] = None
    """Seconds that one of what is counted took at the longest, of the last few lines."""


class CommProgress(NamedTuple):
    """Last collective that one rank launched on one communicator, summarised from its NCCL log."""

    comm: str
    """commId where the log tells it, else ``host:pid:pointer``."""
    rank: int
    """Rank within the communicator; -1 when no INIT line told it."""
    size: int
    global_rank: Optional[int]
    host: str
    pid: int
    op: str
    elements: int
    dtype: str
    op_count: int
    """opCount as printed; stays 0 where NCCL does not move it."""
    launched: int
    """Collectives seen on this communicator (Send and Recv only while nothing else was): an order that always moves."""
    at: Optional[float]
    source: str
    line: int
