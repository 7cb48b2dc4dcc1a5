"""What was found in the files of a job that is over, before it is put together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.node.network.ib_tools import PortBlock
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.stacks import StackDump
from collectors.samples.traces import RankTrace


@dataclass(frozen=True, slots=True)
class Recognised:
    """One file, and what it was taken for. An empty ``kind`` is one that nothing was made of; ``why`` says why."""

    name: str
    kind: str
    size: int
    lines: int = 0
    events: int = 0
    why: str = ""


@dataclass(slots=True)
class Contents:
    """Everything that the files say, as it stands there."""

    files: list[Recognised] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    passed: list[LogEvent] = field(default_factory=list)
    """What is told of faults that the run outlived."""
    progress: list[CommProgress] = field(default_factory=list)
    members: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(host, pid, rank, size) of every communicator that an NCCL log named."""
    recorders: list[RecorderDump] = field(default_factory=list)
    ras: list[RasReport] = field(default_factory=list)
    stacks: list[tuple[str, int | None, StackDump]] = field(default_factory=list)
    """(node, rank where the file's name tells it, dump)."""
    devices: defaultdict[str, list[NamedTuple]] = field(default_factory=lambda: defaultdict(list))
    """Samples of GPUs, NVLinks and ports by node, as its agent would send them."""
    counters: defaultdict[str, list[PortBlock]] = field(default_factory=lambda: defaultdict(list))
    """Counters of perfquery by node, in the order of the files: growth shows between two of one port."""
    traces: list[RankTrace] = field(default_factory=list)
    newest: float | None = None
    """When the newest file was written."""
