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


class Counters(NamedTuple):
    """Counters of one port or interface, or of TCP, sent when one has moved; those that did not may be left out."""

    of: str
    """``mlx5_0/1``, ``eth0``; of TCP the network namespace, which has no name."""
    source: str
    """``sysfs`` or ``perfquery-x`` of a port, ``interface``, ``tcp`` (/proc/net/snmp)."""
    values: Dict[str, int]
    """By the kernel's name; data in bytes."""
