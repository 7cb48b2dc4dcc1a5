"""What was found in the files of a job that is over, before it is put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.node.gpus.nvidia_smi_rows import Row
from collectors.node.network.perfquery import PortBlock
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.fabric import PortFacts
from collectors.samples.gpus import GpuFault, GpuProcess, NvlinkCounters
from collectors.samples.logs import CommProgress, CommSpeed, LogEvent
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
    speeds: list[CommSpeed] = field(default_factory=list)
    """What files of NCCL's Inspector tell."""
    members: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(host, pid, rank, size) of every communicator that an NCCL log named."""
    recorders: list[RecorderDump] = field(default_factory=list)
    ras: list[RasReport] = field(default_factory=list)
    stacks: list[tuple[str, int | None, StackDump]] = field(default_factory=list)
    """(node, rank where the file's name tells it, dump)."""
    gpus: dict[str, list[Row]] = field(default_factory=dict)
    """Rows of nvidia-smi by node."""
    gpu_faults: dict[str, list[GpuFault]] = field(default_factory=dict)
    gpu_processes: dict[str, list[GpuProcess]] = field(default_factory=dict)
    """Who was on the GPUs, as nvidia-smi listed them, by node."""
    nvlinks: dict[str, list[NvlinkCounters]] = field(default_factory=dict)
    """Which NVLinks are up, by node."""
    ports: dict[str, list[PortFacts]] = field(default_factory=dict)
    """Ports of ibstat by node."""
    counters: dict[str, list[PortBlock]] = field(default_factory=dict)
    """Counters of perfquery by node, in the order of the files: growth shows between two of one port."""
    traces: list[RankTrace] = field(default_factory=list)
    masters: set[str] = field(default_factory=set)
    """Jobs of which a master's log was read: the ranks of their workers are one more than their numbers."""
    newest: float | None = None
    """When the newest file was written."""
