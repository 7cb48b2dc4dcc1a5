"""Ports of InfiniBand and RoCE adapters as the kernel shows them, world-readable and without any tool."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from collectors.node.files import list_folder, read_int, read_text
from collectors.samples.fabric import PortFacts

FOLDER = "class/infiniband"


def ports(sys: str) -> List[Tuple[str, int]]:
    """Every (device, port), sorted."""
    root = os.path.join(sys, FOLDER)
    found: List[Tuple[str, int]] = []
    for device in list_folder(root):
        numbers = [name for name in list_folder(os.path.join(root, device, "ports")) if name.isdigit()]
        found += [(device, int(number)) for number in numbers]
    return sorted(found)


def folder(sys: str, device: str, port: int) -> str:
    """Folder of one port."""
    return os.path.join(sys, FOLDER, device, "ports", str(port))


def facts(sys: str, device: str, port: int) -> Optional[PortFacts]:
    """State and properties of a port; None when it is not there (any more)."""
    home = folder(sys, device, port)
    state = _after_colon(read_text(os.path.join(home, "state")))
    if not state:
        return None
    rate_text = read_text(os.path.join(home, "rate"))
    above = os.path.join(sys, FOLDER, device)
    return PortFacts(
        device=device,
        port=port,
        link_layer=read_text(os.path.join(home, "link_layer")),
        state=state,
        phys_state=_after_colon(read_text(os.path.join(home, "phys_state"))),
        rate=_leading_number(rate_text),
        rate_text=rate_text,
        lid=_hexadecimal(read_text(os.path.join(home, "lid"))),
        sm_lid=_hexadecimal(read_text(os.path.join(home, "sm_lid"))),
        netdev=netdev(sys, device, port),
        firmware=read_text(os.path.join(above, "fw_ver")),
        board=read_text(os.path.join(above, "hca_type")) or read_text(os.path.join(above, "board_id")),
    )


def netdev(sys: str, device: str, port: int) -> str:
    """Network interface of a port: Ethernet's own for RoCE, IPoIB's for InfiniBand; empty when there is none."""
    named = read_text(os.path.join(folder(sys, device, port), "gid_attrs/ndevs/0"))
    if named:
        return named
    nets = os.path.join(sys, FOLDER, device, "device/net")
    for name in list_folder(nets):
        number = read_int(os.path.join(nets, name, "dev_port"))
        if number is None or number == port - 1:
            return name
    return ""


def _after_colon(text: str) -> str:
    """``4: ACTIVE`` → ``ACTIVE``."""
    return text.rpartition(":")[2].strip()


def _leading_number(text: str) -> Optional[float]:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return None


def _hexadecimal(text: str) -> Optional[int]:
    try:
        return int(text, 16)
    except ValueError:
        return None
