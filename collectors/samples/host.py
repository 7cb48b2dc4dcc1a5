"""The node itself: its size and load, HCA ports, interfaces, counters, and what needs no kind of its own."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Union


class HostSample(NamedTuple):
    """The host as a whole: its size, and how much of it is in use."""

    cpus: int
    memory_total: int
    booted: float
    versions: Dict[str, str]
    """``nvidia`` and ``ofed``, as far as files tell."""
    load: float
    memory_available: int
    pressure_io: Optional[float]
    """Share of the last 10 s in which some task waited for I/O, per cent (/proc/pressure)."""


class Reading(NamedTuple):
    """What a source reads of one thing, where that needs no kind of its own: shown with the node, at hand for rules."""

    source: str
    of: str
    """The thing: a path, a device."""
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
