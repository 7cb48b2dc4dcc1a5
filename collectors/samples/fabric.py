"""HCA ports, interfaces, TCP."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional


class PortFacts(NamedTuple):
    """One port of one HCA."""

    device: str
    port: int
    link_layer: str
    """``InfiniBand`` or ``Ethernet`` (RoCE)."""
    state: str
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``."""
    phys_state: str
    """``LinkUp``, ``Polling``, ``Disabled`` …"""
    rate: Optional[float]
    """Gb/s."""


class PortCounters(NamedTuple):
    """Counters of one port, sent when one has moved. Data counters are in bytes."""

    device: str
    port: int
    source: str
    """``sysfs``, ``perfquery`` (32 bit, saturating) or ``perfquery-x``."""
    values: Dict[str, int]


class Interface(NamedTuple):
    """One network interface."""

    name: str
    mtu: int
    speed: Optional[int]
    """Mb/s."""
    up: bool
    addresses: List[str]
    """With the length of their network's prefix: ``10.0.0.1/24``."""
    kind: str
    """``physical``, ``virtual``, ``loopback``, ``ipoib``."""


class InterfaceCounters(NamedTuple):
    """Traffic and losses of one interface since boot."""

    name: str
    received: int
    sent: int
    receive_drops: int
    send_drops: int


class TcpCounters(NamedTuple):
    """TCP segments of this network namespace since boot (/proc/net/snmp)."""

    segments_sent: int
    retransmitted: int
