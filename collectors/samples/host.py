"""The node itself."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional


class HostFacts(NamedTuple):
    """What does not move on a host."""

    cpus: int
    memory_total: int
    booted: float
    versions: Dict[str, str]
    """``nvidia``, ``cuda``, ``nccl``, ``ofed``, ``torch`` as far as files tell."""


class HostSample(NamedTuple):
    """What moves on a host."""

    load: float
    """One-minute load average."""
    memory_available: int
    pressure_io: Optional[float]
    """Share of the last 10 s in which some task waited for I/O, per cent (/proc/pressure)."""


class Disk(NamedTuple):
    """A file system that the job works on."""

    path: str
    role: str
    """``tmp``, ``shm``, ``cwd``."""
    total: int
    free: int
