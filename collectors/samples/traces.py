"""What a profiler trace says."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class TraceCall(NamedTuple):
    """One collective of one rank, as its trace has it."""

    op: str
    """``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all``, ``send_recv`` …"""
    group: str
    """Name and description of the process group, the same on all its ranks; empty where the trace does not tell."""
    start: float
    """From the trace's beginning."""
    seconds: float
    """Of the kernel, or on CPU from the call to its completion; it contains the wait for the other ranks."""
    size: Optional[int]
    """Of the buffer over all ranks where the operation has one."""
    seq: Optional[int]
    """Its number in the group."""


class TraceTotal(NamedTuple):
    """All calls of one operation in one group."""

    op: str
    group: str
    ranks: str
    """Members as torch writes them, ``[0, 1]``."""
    group_size: Optional[int]
    calls: int
    seconds: float
    """Sum."""
    worst: float
    size: Optional[int]
    """Sum."""


class TraceStep(NamedTuple):
    """One ``ProfilerStep``."""

    number: int
    start: float
    """From the trace's beginning."""
    seconds: float


class RankTrace(NamedTuple):
    """One rank's profiler trace in figures: every one is the length of a union of intervals (``docs/probes.md``)."""

    node: str
    """Where the file lies; empty for this machine."""
    path: str
    size: int
    """Of the file, compressed or not."""
    rank: Optional[int]
    world_size: Optional[int]
    device: str
    """``gpu``: the GPU's time; ``cpu``: the trace has none."""
    events: int
    """Events that counted."""
    why: str
    """Why it could not be read, or not to its end; empty when it was."""
    began: Optional[float]
    """Wall clock of the first event."""
    wall: float
    """From the first event to the end of the last."""
    compute: float
    communication: float
    exposed: float
    """Communication while nothing was computed."""
    memcpy: float
    idle: float
    """Neither of these."""
    data: float
    """In a data loader's next, with neither of these."""
    steps: List[TraceStep]
    totals: List[TraceTotal]
    """By operation and group, the longest first."""
    calls: List[TraceCall]
    """The first ones in order of their start."""
