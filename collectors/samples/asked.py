"""What is asked once: observations, files of recorders, paths between nodes."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

from collectors.samples.values import Value


class Observation(NamedTuple):
    """One answer of a one-shot check of a node: a value, or why there is none."""

    name: str
    """``loopback``, ``connect``, ``limit`` …: see ``collectors.node.machine.preflight``."""
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
