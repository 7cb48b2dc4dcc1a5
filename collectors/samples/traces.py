"""What a profiler trace says."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class TraceCall(NamedTuple):
    """One collective of one rank, as its trace has it."""

    op: str
    """``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all``, ``send_recv`` …"""
    group: str
    """Name, description and ranks of the process group, alike on all its ranks; empty where the trace does not tell."""
    seconds: float
    """Of the kernel, or on CPU from the call to its completion; it contains the wait for the other ranks."""
    seq: Optional[int]


class RankTrace(NamedTuple):
    """One rank's profiler trace in figures: every one is the length of a union of intervals (``docs/probes.md``)."""

    path: str
    rank: Optional[int]
    world_size: Optional[int]
    events: int
    why: str
    began: Optional[float]
    wall: float
    """From the first event to the end of the last."""
    compute: float
    communication: float
    exposed: float
    """Communication while nothing was computed."""
    idle: float
    """Neither of these."""
    data: float
    """In a data loader's next, with neither of these."""
    calls: List[TraceCall]
    """The first ones in order of their start."""
