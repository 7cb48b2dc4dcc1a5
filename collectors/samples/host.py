"""The node itself: its size and load, HCA ports, interfaces, counters, and other readings."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Union


class HostSample(NamedTuple):
    """CPUs, memory and load of the host."""

    cpus: int
    memory_total: int
    booted: float
    versions: Dict[str, str]
    """``nvidia`` and ``ofed``; a version that no file contains is left out."""
    load: float
    memory_available: int
    pressure_io: Optional[float]
    """Share of the last 10 s in which some task waited for I/O, per cent (/proc/pressure)."""


class Reading(NamedTuple):
    """Values that a source reads from an object without its own sample kind: shown with the node, used by rules."""

    source: str
    of: str
    """The object: a path, a device."""
    values: Dict[str, Union[int, float, str]]
    """By name, in basic units."""


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
    """With prefix length: ``10.0.0.1/24``."""
    kind: str
    """``physical``, ``virtual``, ``loopback``, ``ipoib``."""


class Counters(NamedTuple):
    """Counters of one port or interface, or of TCP, sent when one has changed; unchanged ones may be left out."""

    of: str
    """``mlx5_0/1``, ``eth0``; empty for TCP, whose counters belong to the network namespace."""
    source: str
    """``sysfs`` or ``perfquery-x`` for a port, ``interface``, ``tcp`` (/proc/net/snmp)."""
    values: Dict[str, int]
    """By the kernel's name; data in bytes."""
