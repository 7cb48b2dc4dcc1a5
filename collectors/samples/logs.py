"""Log files, their lines and events, including the kernel log's."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from collectors.samples import Value


class LogFile(NamedTuple):
    """A log file that is followed, or cannot be followed."""

    path: str
    file_id: str
    """Device and inode; on a shared file system also its source, so that only one node reads the file."""
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    """``stdout``, ``stderr``, ``nccl``, ``elastic`` or ``extra``."""
    size: int
    shared: str
    """Type and source of a shared file system, ``nfs4 server:/export``; empty on a local one."""
    why: str
    left_out: int = 0
    """Bytes that were skipped because the file grew faster than the limit on reading."""


class LogLines(NamedTuple):
    """New lines of a file that is open on the screen."""

    path: str
    rank: Optional[int]
    at: float
    """Time of the file's last write; for lines from before the file was opened, the time in them if they have one."""
    lines: List[str]
    skipped: int
    """Lines left out before these ones (a flood is sampled)."""


class LogEvent(NamedTuple):
    """A line (or block) of a log that a rule recognized, in typed form."""

    kind: str
    """``nccl.warn``, ``torch.watchdog_timeout``, ``python.exception``, ``kernel.xid`` …: see ``docs/log-events.md``."""
    at: Optional[float]
    """Time in the line if it has one, else when it was read; None in a file without times."""
    rank: Optional[int]
    """Global rank, if the line or the process that writes the file gives it."""
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
    """How far the logs of a node have been read."""

    at: float
    """Events of all lines written before have been sent; some seconds ago while a log grows and records are open."""


class StepCount(NamedTuple):
    """Training progress according to a log, and how often it advanced while the log was followed."""

    path: str
    pid: Optional[int]
    """The process that writes the log; None if several do."""
    name: str
    """What is counted: ``step``, ``iteration``, ``update``, ``batch``, ``epoch``, ``bar``."""
    value: Optional[float]
    """The last number printed; None while no line has a count."""
    at: Optional[float]
    """When that line was written; None if neither the line nor the file has a time."""
    grown: int
    """Advances of the count since the file is followed; counts already in the file are not included."""
    every: Optional[float] = None
    longest: Optional[float] = None
    """Seconds per counted unit (step, batch …), the longest of the last few lines."""


class CommProgress(NamedTuple):
    """Last collective that one rank launched on one communicator, summarised from its NCCL log."""

    comm: str
    """commId if the log has it, else ``host:pid:pointer``."""
    rank: int
    """Rank within the communicator; -1 without an INIT line."""
    size: int
    global_rank: Optional[int]
    host: str
    pid: int
    op: str
    elements: int
    dtype: str
    op_count: int
    """opCount as printed; stays 0 if NCCL does not increment it."""
    launched: int
    """Collectives seen on this communicator (Send and Recv only until another operation is seen): always increases."""
    at: Optional[float]
    source: str
    line: int
