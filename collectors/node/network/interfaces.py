"""Network interfaces of this network namespace, from netlink (rtnetlink(7)).

/sys alone does not suffice: it may belong to another network namespace than this process.
"""

from __future__ import annotations

import struct
import sys
from _socket import AF_INET, AF_INET6, AF_UNSPEC, inet_ntop
from contextlib import closing
from typing import Dict, List, Optional, Tuple

from collectors.node.files import link, read_int, text
from collectors.node.netlink import attributes, dump, netlink
from collectors.samples.host import Interface

_ROUTE = 0  # NETLINK_ROUTE
_GET_LINK, _GET_ADDRESS = 18, 22  # RTM_GETLINK, RTM_GETADDR
_LINK, _ADDRESS = struct.Struct("=BxHiI4x"), struct.Struct("=BBBBI")
"""struct ifinfomsg: family, hardware type, index, flags; struct ifaddrmsg: family, prefix, flags, scope, index."""
_NAME, _MTU = 3, 4  # IFLA_IFNAME, IFLA_MTU
_FAR, _LOCAL = 1, 2  # IFA_ADDRESS, IFA_LOCAL
_WORKS = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
_COUNTERS = {"received": 0, "receive_drops": 3, "sent": 8, "send_drops": 11}
"""Column of each counter in a row of /proc/net/dev."""
_LINK_ALONE = 253
"""Scope of a link-local address (RT_SCOPE_LINK)."""
_KINDS = {772: "loopback", 32: "ipoib"}
"""Kinds by hardware type (linux/if_arp.h)."""


def addresses() -> Dict[int, List[str]]:
    """Addresses by interface index, with prefix length: ``10.0.0.1/24``.

    Link-local addresses are left out. Raises :class:`OSError`.
    """
    found: Dict[int, List[str]] = {}
    with closing(netlink(_ROUTE)) as asked:
        for body in dump(asked, _GET_ADDRESS, _ADDRESS.pack(AF_UNSPEC, 0, 0, 0, 0)):
            family, prefix, _, scope, index = _ADDRESS.unpack_from(body)
            fields = attributes(body, _ADDRESS.size)
            raw = fields.get(_LOCAL) or fields.get(_FAR)
            if raw and scope != _LINK_ALONE and family in (AF_INET, AF_INET6):
                found.setdefault(index, []).append("%s/%d" % (inet_ntop(family, raw), prefix))
    return found


def interfaces(folder: str = "/sys") -> List[Interface]:
    """Every interface; sysfs in ``folder`` adds speed and kind if it has the same interface. Raises OSError."""
    held = addresses()
    found: List[Interface] = []
    with closing(netlink(_ROUTE)) as asked:
        for body in dump(asked, _GET_LINK, _LINK.pack(AF_UNSPEC, 0, 0, 0)):
            _, hardware, index, flags = _LINK.unpack_from(body)
            fields = attributes(body, _LINK.size)
            name, up = text(fields.get(_NAME, b"").rstrip(b"\0")), flags & _WORKS == _WORKS
            if not name or _MTU not in fields:
                continue
            base = "%s/class/net/%s" % (folder, name)
            ours = read_int(base + "/ifindex") == index
            kind = _KINDS.get(hardware) or ("physical" if ours and link(base + "/device") else "virtual")
            speed = (read_int(base + "/speed") or -1) if ours and up else -1
            size = int.from_bytes(fields[_MTU], sys.byteorder)
            found.append(Interface(name, size, speed if speed > 0 else None, up, sorted(held.get(index, [])), kind))
    return found


def counters(data: bytes) -> Dict[str, Dict[str, int]]:
    """Traffic and drops by interface, from /proc/net/dev: eight figures received, then eight sent."""
    found: Dict[str, Dict[str, int]] = {}
    for line in data.split(b"\n"):
        name, _, figures = line.rpartition(b":")
        words = figures.split()
        if name and len(words) == 16:
            found[text(name).strip()] = {counter: int(words[place]) for counter, place in _COUNTERS.items()}
    return found


def interface_of(address: str) -> Tuple[str, Optional[int]]:
    """Name and MTU of the interface with this address; empty and None if no interface has it."""
    for interface in interfaces():
        if address in [held.partition("/")[0] for held in interface.addresses]:
            return interface.name, interface.mtu
    return "", None
