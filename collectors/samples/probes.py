"""What is asked once of a node, and what a probe between nodes measured."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

from collectors.samples import Value


class Observation(NamedTuple):
    """One answer of a one-shot check of a node: a value, or why there is none."""

    name: str
    """``connect``, ``limit``, ``pcie`` …: see ``collectors.node.machine.preflight``."""
    subject: str
    """What was looked at: ``10.0.0.1:29500``, ``memlock``, ``/etc/nccl.conf``; empty where the name says it all."""
    value: Value
    error: str


class RecorderFile(NamedTuple):
    """A flight recorder dump as a node found it, or why a rank has none: that is evidence too."""

    rank: int
    path: str
    """The file; where there is none, where it would have been."""
    modified: Optional[float]
    data: str
    """Contents, base64; empty when there is no file."""
    pipe: str
    """The rank's pipe by which a dump can be asked for; empty when the job was started without one."""
    why: str


class RasAnswer(NamedTuple):
    """What NCCL's RAS socket answered."""

    data: str
    why: str


class PathFigure(NamedTuple):
    """One direction of the path between two nodes, as the sending node saw it. None is "not measured"."""

    a: str
    """Node that connects and sends."""
    b: str
    connect: Optional[float] = None
    round_trip: Optional[float] = None
    """Median seconds of small TCP echoes."""
    mtu: Optional[int] = None
    """Largest IPv4 or IPv6 packet (headers included) that arrived unfragmented, bytes."""
    local_mtu: Optional[int] = None
    interface: str = ""
    throughput: Optional[float] = None
    retransmitted: Optional[float] = None
    """Share of its segments that this connection sent again, 0 to 1 (TCP_INFO)."""
    error: str = ""
    method: str = "hangtop"
    """What measured the throughput: ``hangtop``, ``ib_write_bw`` or ``iperf 3.12``; the reason where iperf3 failed."""
    shown: List[str] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """ibping's summary, and every port on the way by ibtracert."""


class ProbeRank(NamedTuple):
    """One rank of a probe."""

    rank: int
    node: str
    state: str
    """``done``, ``absent`` (did not come to the barrier in time), ``failed``."""
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
    """Share of its TCP segments that the path probe's sender had to send again, 0 to 1 (the larger of the two)."""
    error: str


class IbPort(NamedTuple):
    """A port of an InfiniBand or RoCE adapter as ibv_devinfo shows it; 0 for a number that it does not tell."""

    node: str
    device: str
    port: int
    state: str
    """``PORT_ACTIVE``, ``PORT_INIT``, ``PORT_ARMED``, ``PORT_DOWN``."""
    max_mtu: int
    active_mtu: int
    link_layer: str
    lid: int

    @property
    def name(self) -> str:
        """``mlx5_0/1``."""
        return f"{self.device}/{self.port}"


class NcclTest(NamedTuple):
    """What ``all_reduce_perf`` of NVIDIA's nccl-tests measured on one node, over all its GPUs."""

    node: str
    ranks: int
    figures: List[ProbeFigure]
    """Of the out-of-place columns; nccl-tests names no rank, so the lists of ranks are empty."""
    wrong: Optional[int]
    """Wrong elements over all sizes; None where they were not counted."""
    why: str


class ProbeReport(NamedTuple):
    """Everything that one run of the collective probe found."""

    backend: str
    world_size: int
    at: float
    took: float
    outcome: str
    why: str
    ranks: List[ProbeRank]
    figures: List[ProbeFigure]
    pairs: List[ProbePair]
    network: Dict[str, Dict[str, str]]
    """By node, what NCCL's log of the probe said: ``version``, ``network`` (IB, Socket …), ``gdr`` (on, off, on N of
    M channels); a name that it did not say is not there."""
    tested: List[NcclTest] = []  # noqa: RUF012 (a NamedTuple is never changed)
