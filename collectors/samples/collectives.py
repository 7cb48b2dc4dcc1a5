"""What the job's libraries say of their collectives: flight recorder, NCCL RAS, profiler traces."""

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
    """The other end of a send or receive, as a rank *of the group*; None where the name does not tell."""
    input_sizes: List[List[int]]
    input_dtypes: List[str]
    state: str
    """``scheduled``, ``started``, ``completed``; gloo's never leaves ``scheduled``."""
    retired: bool
    created: Optional[float]
    frames: List[Frame]
    record: Optional[int] = None
    """Place in the recorder's order, from 0 on (torch 2.10 and later start again after a reset)."""


class RecorderDump(NamedTuple):
    """One rank's flight recorder dump."""

    rank: int
    source: str
    at: Optional[float]
    """When the newest entry was made: the dump is at least as new."""
    groups: Dict[str, List[int]]
    """Global ranks of each process group in the order of the group, as far as pg_config tells."""
    status: Dict[str, Tuple[Optional[int], Optional[int]]]
    """Of each process group the numbers last enqueued and last completed; -1 is "none yet"."""
    collectives: List[Collective]
    written: Optional[float] = None
    """When the dump was written, by the clock of the entries; None where only copies of it are at hand."""


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
