"""Results of one-shot checks of a node and of probes between nodes."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from collectors.samples import Value


class Observation(NamedTuple):
    """One answer of a one-shot check of a node: a value, or the reason why it is missing."""

    name: str
    """``connect``, ``limit``, ``pcie`` …: see ``collectors.node.machine.preflight``."""
    subject: str
    """The object checked: ``10.0.0.1:29500``, ``memlock``, ``/etc/nccl.conf``; empty if the name suffices."""
    value: Value
    error: str


class RecorderFile(NamedTuple):
    """A flight recorder dump found on a node, or the reason why a rank has none, which is evidence too."""

    rank: int
    path: str
    """The dump file, or the path at which it was expected."""
    modified: Optional[float]
    data: str
    """Contents, base64; empty when there is no file."""
    pipe: str
    """The rank's pipe through which a dump can be requested; empty when the job was started without one."""
    why: str


class RasAnswer(NamedTuple):
    """The answer of NCCL's RAS socket."""

    data: str
    why: str


class PathFigure(NamedTuple):
    """One direction of the path between two nodes, measured on the sending node. None means "not measured"."""

    a: str
    """Node that connects and sends."""
    b: str
    connect: Optional[float] = None
    round_trip: Optional[float] = None
    """Seconds; the kernel's smoothed round trip of the connection (TCP_INFO)."""
    mtu: Optional[int] = None
    """Largest IPv4 or IPv6 packet (headers included) that arrived unfragmented, bytes."""
    local_mtu: Optional[int] = None
    interface: str = ""
    throughput: Optional[float] = None
    retransmitted: Optional[float] = None
    """Share of the connection's segments that were retransmitted, 0 to 1 (TCP_INFO)."""
    error: str = ""
    method: str = "hangtop"
    """How throughput was measured: ``hangtop``, ``ib_write_bw`` or ``iperf 3.12``; the reason if iperf3 failed."""
    shown: List[str] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """ibping's summary, and every port on the path according to ibtracert."""


class ProbeRank(NamedTuple):
    """One rank of a probe."""

    rank: int
    node: str
    state: str
    """``done``, ``absent`` (did not reach the barrier in time), ``failed``."""
    why: str
    gpu: Optional[int] = None
    """Index of its GPU on the node; None on CPU."""


class ProbeFigure(NamedTuple):
    """One operation at one size over all ranks; see ``docs/probes.md`` for the definitions."""

    op: str
    size: int
    seconds: float
    """Slowest rank, mean over repeats."""
    algbw: float
    """GB/s (1e9 bytes)."""
    busbw: float
    wrong_ranks: List[int]


class ProbePair(NamedTuple):
    """Two nodes measured alone."""

    a: str
    b: str
    busbw: Optional[float]
    """GB/s; None when it did not finish."""
    retransmitted: Optional[float]
    """Share of TCP segments that the path probe retransmitted, 0 to 1 (the larger of the two directions)."""
    error: str


class IbPort(NamedTuple):
    """A port of an InfiniBand or RoCE adapter as ibv_devinfo shows it; 0 for a number that ibv_devinfo omits."""

    node: str
    device: str
    port: int
    state: str
    """``PORT_ACTIVE``, ``PORT_INIT``, ``PORT_ARMED``, ``PORT_DOWN``."""
    max_mtu: int
    active_mtu: int
    link_layer: str
    lid: int


class NcclTest(NamedTuple):
    """What ``all_reduce_perf`` of NVIDIA's nccl-tests measured on one node, over all its GPUs."""

    node: str
    ranks: int
    figures: List[ProbeFigure]
    """From the out-of-place columns; nccl-tests names no rank, so ``wrong_ranks`` is empty."""
    wrong: Optional[int]
    """Wrong elements over all sizes; None if not counted."""
    why: str


class ProbeReport(NamedTuple):
    """Everything that one run of the collective probe found."""

    backend: str
    world_size: int
    at: float
    took: float
    why: str
    ranks: List[ProbeRank]
    figures: List[ProbeFigure]
    pairs: List[ProbePair]
    network: Dict[str, Dict[str, str]]
    """By node, as far as NCCL's log shows: ``version``, ``network`` (IB, Socket …), ``gdr`` (on, off, on N of M)."""
    tested: List[NcclTest] = []  # noqa: RUF012 (a NamedTuple is never changed)
