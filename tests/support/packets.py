"""Captures made by hand: TCP segments in pcap bytes, as tcpdump would have written them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

FIN, SYN, ACK = 1, 2, 16


PORTS = 40000, 29500


def tcp(seq: int, length: int, *, flags: int = ACK, options: int = 12) -> bytes:
    """A TCP header with options; its payload of ``length`` bytes is left out, as a short snapshot does."""
    del length
    offset = (20 + options) // 4 << 4
    return struct.pack(">HHIIBBHHH", *PORTS, seq & 0xFFFFFFFF, 1, offset, flags, 512, 0, 0) + bytes(options)


def ipv4(segment: bytes, length: int, *, source: str = "10.0.0.1", target: str = "10.0.0.2") -> bytes:
    """An IPv4 packet that says its payload has ``length`` bytes (0 in the header where it is too large to say)."""
    total = 20 + len(segment) + length
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, total if total < 65536 else 0, 1, 0x4000, 64, 6, 0) + addresses + segment


def ipv6(segment: bytes, length: int, *, extension: bool = False) -> bytes:
    """An IPv6 packet, with a hop-by-hop header where one is wanted."""
    extra = struct.pack(">BB6x", 6, 0) if extension else b""
    head = struct.pack(">IHBB", 6 << 28, len(extra) + len(segment) + length, 0 if extension else 6, 64)
    addresses = ipaddress.IPv6Address("fd00::1").packed + ipaddress.IPv6Address("fd00::2").packed
    return head + addresses + extra + segment


def ethernet(packet: bytes, *, tags: int = 0) -> bytes:
    """A frame, with VLAN tags."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return bytes(12) + struct.pack(">HH", 0x8100, 7) * tags + struct.pack(">H", kind) + packet


def pcap(
    records: Iterable[tuple[float, bytes, int]], *, order: str = "<", nanoseconds: bool = False, link: int = 1
) -> bytes:
    """A capture of (time, bytes held, bytes on the wire)."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 128, link)]
    for at, held, original in records:
        part = round(at % 1 * (1e9 if nanoseconds else 1e6))
        parts.append(struct.pack(order + "IIII", int(at), part, len(held), original) + held)
    return b"".join(parts)


def frame(seq: int, length: int, at: float = 1.0, **fields: int) -> tuple[float, bytes, int]:
    """One record with a segment of ``length`` bytes."""
    held = ethernet(ipv4(tcp(seq, length, **fields), length))
    return at, held, len(held) + length
