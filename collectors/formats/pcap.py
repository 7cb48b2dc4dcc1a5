"""TCP segments out of a packet capture: the classic pcap format, as tcpdump writes it.

Source of the format: pcap-savefile(5) and draft-ietf-opsawg-pcap (magic numbers in either byte order, microseconds or
nanoseconds); link types by the registry at tcpdump.org/linktypes.html. Reading is record by record: a capture of any
size takes the memory of one packet.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

FILE_HEADER, RECORD_HEADER = 24, 16
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}  # fmt: skip
RECORD_LIMIT = 1 << 18
"""Bytes of the largest packet that tcpdump stores (MAXIMUM_SNAPLEN)."""
SYN = 2
_ETHERNET, _RAW, _SLL, _SLL2, _IPV4, _IPV6 = 1, 101, 113, 276, 228, 229
_VLAN = {0x8100, 0x88A8}
_TCP = 6
_EXTENSIONS = {0, 43, 60}
"""IPv6 headers that may stand before TCP: hop-by-hop, routing, destination options; each tells its length."""


class PcapError(ValueError):
    """The bytes are no capture; the text says why."""


class Segment(NamedTuple):
    """One TCP segment."""

    at: float
    """Seconds since the epoch, by the clock of the capturing machine."""
    source: str
    source_port: int
    target: str
    target_port: int
    seq: int
    flags: int
    length: int
    """Bytes of payload on the wire, also where the capture holds only the headers."""


def segments(file: BinaryIO) -> Iterator[Segment]:
    """Every TCP segment; what is none is passed over, a last record that was cut off ends it.

    Raises :class:`PcapError` for a file that is no capture.
    """
    head = file.read(FILE_HEADER)
    if len(head) < FILE_HEADER or head[:4] not in _MAGIC:
        raise PcapError("no pcap file: its first bytes are " + (head[:4].hex() or "missing"))
    order, fraction = _MAGIC[head[:4]]
    (link,) = struct.unpack(order + "I", head[20:24])
    for at, original, data in _records(file, order, fraction):
        found = _segment(at, original, data, link & 0xFFFF)
        if found is not None:
            yield found


def _records(file: BinaryIO, order: str, fraction: float) -> Iterator[tuple[float, int, bytes]]:
    while len(head := file.read(RECORD_HEADER)) == RECORD_HEADER:
        seconds, part, held, original = struct.unpack(order + "4I", head)
        if held > RECORD_LIMIT:
            return
        data = file.read(held)
        if len(data) < held:
            return
        yield seconds + part * fraction, original, data


def whole_length(file: BinaryIO) -> int:
    """Bytes up to the end of the last whole record. Raises :class:`PcapError`."""
    head = file.read(FILE_HEADER)
    if len(head) < FILE_HEADER or head[:4] not in _MAGIC:
        raise PcapError("no pcap file")
    order, fraction = _MAGIC[head[:4]]
    return FILE_HEADER + sum(RECORD_HEADER + len(data) for _, _, data in _records(file, order, fraction))


def _segment(at: float, original: int, data: bytes, link: int) -> Segment | None:
    start, kind = _network(data, link)
    if kind == 0x0800:
        return _ipv4(at, original, data, start)
    return _ipv6(at, original, data, start) if kind == 0x86DD else None


def _network(data: bytes, link: int) -> tuple[int, int]:
    """(offset of the IP header, EtherType); an EtherType of 0 is none that is known."""
    if link == _ETHERNET:
        start, kind = 14, int.from_bytes(data[12:14], "big")
        while kind in _VLAN and len(data) >= start + 4:
            start, kind = start + 4, int.from_bytes(data[start + 2 : start + 4], "big")
        return start, kind
    if link == _SLL:
        return 16, int.from_bytes(data[14:16], "big")
    if link == _SLL2:
        return 20, int.from_bytes(data[0:2], "big")
    if link in (_RAW, _IPV4, _IPV6, 12, 14):
        return 0, {4: 0x0800, 6: 0x86DD}.get(data[0] >> 4 if data else 0, 0)
    return 0, 0


def _ipv4(at: float, original: int, data: bytes, start: int) -> Segment | None:
    if len(data) < start + 20 or data[start] >> 4 != 4 or data[start + 9] != _TCP:
        return None
    header = (data[start] & 15) * 4
    total = int.from_bytes(data[start + 2 : start + 4], "big") or original - start  # 0: larger than 64 KB, not yet cut
    if int.from_bytes(data[start + 6 : start + 8], "big") & 0x1FFF:
        return None  # a later fragment has no TCP header
    addresses = (str(ipaddress.IPv4Address(data[start + at_ : start + at_ + 4])) for at_ in (12, 16))
    return _tcp(at, data, start + header, total - header, *addresses)


def _ipv6(at: float, original: int, data: bytes, start: int) -> Segment | None:
    if len(data) < start + 40 or data[start] >> 4 != 6:
        return None
    left = int.from_bytes(data[start + 4 : start + 6], "big") or original - start - 40
    kind, place = data[start + 6], start + 40
    while kind in _EXTENSIONS and len(data) >= place + 2:
        size = (data[place + 1] + 1) * 8
        kind, place, left = data[place], place + size, left - size
    if kind != _TCP:
        return None
    addresses = (str(ipaddress.IPv6Address(data[start + at_ : start + at_ + 16])) for at_ in (8, 24))
    return _tcp(at, data, place, left, *addresses)


def _tcp(at: float, data: bytes, start: int, left: int, source: str, target: str) -> Segment | None:
    """The segment whose TCP header begins at ``start``; ``left`` bytes of the packet are header and payload."""
    if len(data) < start + 14:
        return None
    source_port, target_port, seq, _, offset, flags = struct.unpack_from(">HHIIBB", data, start)
    length = left - (offset >> 4) * 4
    if offset >> 4 < 5 or length < 0:
        return None
    return Segment(at, source, source_port, target, target_port, seq, flags, length)
