"""Network interfaces of this network namespace, as the kernel tells over netlink (rtnetlink(7)).

Not of /sys alone, which may belong to another network namespace than this process.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import link, read_int, text
from collectors.node.netlink import attributes, dump, netlink
from collectors.samples.fabric import Interface, InterfaceCounters

_ROUTE = 0  # NETLINK_ROUTE
_GET_LINK, _GET_ADDRESS = 18, 22  # RTM_GETLINK, RTM_GETADDR
_LINK, _ADDRESS = struct.Struct("=BxHiI4x"), struct.Struct("=BBBBI")
"""struct ifinfomsg: family, hardware type, index, flags; struct ifaddrmsg: family, prefix, flags, scope, index."""
_NAME, _MTU = 3, 4  # IFLA_IFNAME, IFLA_MTU
_FAR, _LOCAL = 1, 2  # IFA_ADDRESS, IFA_LOCAL
_WORKS = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
_LINK_ALONE = 253
"""Scope of an address that is known on its own link only (RT_SCOPE_LINK)."""
_KINDS = {772: "loopback", 32: "ipoib"}
"""Hardware types (linux/if_arp.h) that name the kind by themselves."""


class Link(NamedTuple):
    """What the kernel says about one interface."""

    name: str
    number: int
    mtu: int
    up: bool
    hardware: int


def links() -> Iterator[Link]:
    """Every interface. Raises :class:`OSError`."""
    with netlink(_ROUTE) as asked:
        for body in dump(asked, _GET_LINK, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0)):
            _, hardware, index, flags = _LINK.unpack_from(body)
            told = attributes(body, _LINK.size)
            name, mtu = text(told.get(_NAME, b"").rstrip(b"\0")), told.get(_MTU)
            if name and mtu is not None:
                yield Link(name, index, int.from_bytes(mtu, sys.byteorder), flags & _WORKS == _WORKS, hardware)


def addresses() -> Dict[int, List[str]]:
    """Addresses by index of the interface, with the length of their network's prefix: ``10.0.0.1/24``.

    Addresses that are known on their own link only are left out. Raises :class:`OSError`.
    """
    found: Dict[int, List[str]] = {}
    with netlink(_ROUTE) as asked:
        for body in dump(asked, _GET_ADDRESS, _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
            family, prefix, _, scope, index = _ADDRESS.unpack_from(body)
            told = attributes(body, _ADDRESS.size)
            raw = told.get(_LOCAL) or told.get(_FAR)
            if raw and scope != _LINK_ALONE and family in (socket.AF_INET, socket.AF_INET6):
                found.setdefault(index, []).append("%s/%d" % (socket.inet_ntop(family, raw), prefix))
    return found


def interfaces(folder: str) -> List[Interface]:
    """Every interface; ``folder``, sysfs, adds speed and kind where it speaks of the same one. Raises OSError."""
    held = addresses()
    found: List[Interface] = []
    for one in links():
        base = "%s/class/net/%s" % (folder, one.name)
        ours = read_int(base + "/ifindex") == one.number
        kind = _KINDS.get(one.hardware) or ("physical" if ours and link(base + "/device") else "virtual")
        speed = read_int(base + "/speed") if ours and one.up else None
        own = sorted(held.get(one.number, []))
        found.append(Interface(one.name, one.mtu, speed if speed and speed > 0 else None, one.up, own, kind))
    return found


def counters(data: bytes) -> Dict[str, InterfaceCounters]:
    """Traffic and losses by interface, of /proc/net/dev: eight figures received, then eight sent."""
    found: Dict[str, InterfaceCounters] = {}
    for line in data.split(b"\n"):
        name, _, figures = line.rpartition(b":")
        words = figures.split()
        if name and len(words) == 16:
            received, receive_drops, sent, send_drops = (int(words[place]) for place in (0, 3, 8, 11))
            found[text(name).strip()] = InterfaceCounters(text(name).strip(), received, sent, receive_drops, send_drops)
    return found


def interface_of(address: str) -> Tuple[str, Optional[int]]:
    """Name and MTU of the interface that holds an address; empty and None for an address of no interface."""
    held = addresses()
    for one in links():
        if address in [own.partition("/")[0] for own in held.get(one.number, [])]:
            return one.name, one.mtu
    return "", None
