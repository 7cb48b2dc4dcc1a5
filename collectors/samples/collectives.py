"""Collectives as the job's libraries report them: flight recorder, NCCL RAS, profiler traces."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from collectors.samples.stacks import Frame


class Collective(NamedTuple):
    """One entry of a flight recorder dump."""

    group: str
    group_description: str
    seq: int
    """collective_seq_id; p2p_seq_id when ``p2p``."""
    op: str
    """``all_reduce``, ``broadcast`` …, without the backend's prefix."""
    p2p: bool
    peer: Optional[int]
    """The peer of a send or receive, as a rank *within the group*; None when the entry's name does not contain it."""
    input_sizes: List[List[int]]
    input_dtypes: List[str]
    state: str
    """``scheduled``, ``started``, ``completed``; gloo's never leaves ``scheduled``."""
    retired: bool
    created: Optional[float]
    frames: List[Frame]
    record: Optional[int] = None
    """Position in the recorder's order, from 0 (torch 2.10 and later restart at 0 after a reset)."""


class RecorderDump(NamedTuple):
    """One rank's flight recorder dump."""

    rank: int
    source: str
    at: Optional[float]
    """When the newest entry was made; the dump was written then or later."""
    groups: Dict[str, List[int]]
    """Global ranks of each process group, ordered by group rank; only groups whose ranks pg_config lists."""
    status: Dict[str, Tuple[Optional[int], Optional[int]]]
    """For each process group, the sequence numbers last enqueued and last completed; -1 means "none yet"."""
    collectives: List[Collective]
    written: Optional[float] = None
    """When the dump was written, by the clock of the entries; None when only copies of the dump are available."""


class RasRank(NamedTuple):
    """One rank of a communicator, as NCCL RAS reports it."""

    rank: int
    host: str
    pid: int
    counts: Dict[str, int]
    """Collectives launched, by operation; empty when the rank did not answer."""


class RasCommunicator(NamedTuple):
    """One communicator of a RAS report."""

    comm: str
    size: int
    ranks: List[RasRank]
    ok: bool


class RasReport(NamedTuple):
    """One answer of the RAS socket."""

    at: float
    communicators: List[RasCommunicator]


class TraceCall(NamedTuple):
    """One collective of one rank, as recorded in its trace."""

    op: str
    """``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all``, ``send_recv`` …"""
    group: str
    """Name, description and ranks of the process group, the same text on all its ranks; empty if not in the trace."""
    seconds: float
    """Duration of the kernel, or on CPU from call to completion; the wait for the other ranks is included."""
    seq: Optional[int]


class RankTrace(NamedTuple):
    """One rank's profiler trace in figures: each time is the length of a union of intervals (``docs/probes.md``)."""

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
    """Communication that does not overlap with compute."""
    idle: float
    """Neither compute nor communication."""
    data: float
    """In a data loader's ``next``, with neither compute nor communication."""
    calls: List[TraceCall]
    """The first collectives, ordered by start."""
