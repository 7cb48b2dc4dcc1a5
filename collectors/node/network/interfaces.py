"""Network interfaces of this network namespace.

Asked of the kernel by ioctl (netdevice(7)), because /sys may belong to another network namespace than this process.
"""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from typing import Dict, List, NamedTuple, Optional, Tuple

from collectors.node.files import link, read_int, text
from collectors.samples.fabric import Interface, InterfaceCounters

_SIOCGIFCONF = 0x8912
_SIOCGIFFLAGS = 0x8913
_SIOCGIFMTU = 0x8921
_SIOCGIFNETMASK = 0x891B
_SIOCGIFHWADDR = 0x8927
_IFF_WORKS = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
_REQUEST = 40
"""Size of struct ifreq on 64-bit systems."""

_IPV6 = re.compile(r"[0-9a-f]{32} [0-9a-f]{1,2}$")
"""Address and prefix length of a line of /proc/net/if_inet6."""

_KINDS = {772: "loopback", 32: "ipoib"}
"""Hardware types (linux/if_arp.h) that name the kind by themselves."""


class Link(NamedTuple):
    """What the kernel says about one interface."""

    mtu: int
    up: bool
    hardware: int


class InterfaceQueries:
    """Asks the kernel about the interfaces of this process's network namespace."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def link(self, name: str) -> Optional[Link]:
        """MTU, state and hardware type; None when the interface is gone."""
        request = struct.pack("16s24x", name.encode()[:15])
        asked = (_SIOCGIFMTU, "i"), (_SIOCGIFFLAGS, "H"), (_SIOCGIFHWADDR, "H")
        try:
            mtu, flags, hardware = (
                struct.unpack_from(form, fcntl.ioctl(self._socket, code, request), 16)[0] for code, form in asked
            )
        except OSError:
            return None
        return Link(mtu, flags & _IFF_WORKS == _IFF_WORKS, hardware)

    def addresses(self) -> Dict[str, List[str]]:
        """IPv4 addresses by interface, with the length of their network's prefix: ``10.0.0.1/24``."""
        found: Dict[str, List[str]] = {}
        buffer = bytearray(_REQUEST * 512)
        # struct ifconf holds a pointer, so the address of the buffer is needed
        import ctypes

        pointer = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
        size = struct.unpack("iP", fcntl.ioctl(self._socket, _SIOCGIFCONF, struct.pack("iP", len(buffer), pointer)))[0]
        for start in range(0, size, _REQUEST):
            name = text(bytes(buffer[start : start + 16]).split(b"\0")[0]).partition(":")[0]
            address = socket.inet_ntoa(bytes(buffer[start + 20 : start + 24]))
            found.setdefault(name, []).append(address + self._prefix(bytes(buffer[start : start + _REQUEST])))
        return found

    def _prefix(self, request: bytes) -> str:
        """``/24``, of an interface and its address as SIOCGIFCONF lists them; empty when that has just gone."""
        try:
            answer: bytes = fcntl.ioctl(self._socket, _SIOCGIFNETMASK, request)
        except OSError:
            return ""
        return "/%d" % bin(int.from_bytes(answer[20:24], "big")).count("1")


def describe(name: str, asked: Link, addresses: List[str], sys: str) -> Interface:
    """Sample of an interface; sysfs adds speed and kind where it speaks of the same interface."""
    base = "%s/class/net/%s" % (sys, name)
    ours = read_int(base + "/ifindex") == _index(name)
    kind = _KINDS.get(asked.hardware) or ("physical" if ours and link(base + "/device") else "virtual")
    speed = read_int(base + "/speed") if ours and asked.up else None
    return Interface(name, asked.mtu, speed if speed and speed > 0 else None, asked.up, addresses, kind)


def _index(name: str) -> Optional[int]:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def parse_if_inet6(data: bytes) -> Dict[str, List[str]]:
    """IPv6 addresses with their prefix length, by interface, of /proc/net/if_inet6; link-local ones are left out."""
    found: Dict[str, List[str]] = {}
    for line in text(data).splitlines():
        fields = line.split()
        if len(fields) != 6 or not _IPV6.match(fields[0] + " " + fields[2]) or fields[0].startswith("fe80"):
            continue
        address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
        found.setdefault(fields[5], []).append("%s/%d" % (address, int(fields[2], 16)))
    return found


def parse_dev(data: bytes) -> List[InterfaceCounters]:
    """Counters of every interface in /proc/net/dev."""
    found: List[InterfaceCounters] = []
    for line in data.split(b"\n"):
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()[:16]
        # of 64 bits: Python refuses to read a number of thousands of digits
        if colon and len(fields) == 16 and all(field.isdigit() and len(field) <= 20 for field in fields):
            numbers = [int(field) for field in fields]
            found.append(InterfaceCounters(text(name.strip()), numbers[0], numbers[8], numbers[3], numbers[11]))
    return found


def parse_snmp_tcp(data: bytes) -> Optional[Tuple[int, int]]:
    """Segments sent and retransmitted, of the two ``Tcp:`` lines of /proc/net/snmp."""
    rows = [line.split()[1:] for line in data.split(b"\n") if line.startswith(b"Tcp:")]
    if len(rows) != 2:
        return None
    values = dict(zip(rows[0], rows[1]))
    try:
        return int(values[b"OutSegs"]), int(values[b"RetransSegs"])
    except (KeyError, ValueError):
        return None
