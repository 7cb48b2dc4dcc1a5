"""What redirects PCIe traffic between GPUs through the CPU: ACS on the bridges above them, and the IOMMU."""

from __future__ import annotations

import os
import re
import struct
from typing import List, Set, Tuple

from collectors.node.files import list_folder, read_or_none, read_text
from collectors.samples.asked import Observation

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""Display and 3D controllers, processing accelerators."""
_GPU_VENDORS = ("0x10de", "0x1002")
_EXTENDED = 0x100
"""Where the extended capabilities begin; a login that is not root reads 64 bytes of a configuration alone."""
_ACS = 0x0D
_REDIRECTS = 0x04 | 0x08
"""P2P Request Redirect and Completion Redirect in the ACS control register."""


def pcie(sys: str = "/sys") -> List[Observation]:
    """One observation where the node has GPUs: what redirects their traffic, and why the bridges were not read."""
    folder = sys + "/bus/pci/devices/"
    gpus = [name for name in list_folder(folder) if _is_gpu(folder + name)]
    wrong, unread = [], False
    bridges: Set[str] = set()
    for gpu in gpus:
        domain = read_text("%s%s/iommu_group/type" % (folder, gpu))
        if domain.startswith("DMA"):
            wrong.append("IOMMU translates for %s (%s)" % (gpu, domain))
        bridges.update(part for part in os.path.realpath(folder + gpu).split("/")[:-1] if _ADDRESS.match(part))
    for bridge in sorted(bridges):
        known, redirects = _acs(read_or_none("%s%s/config" % (folder, bridge)) or b"")
        unread = unread or not known
        if redirects:
            wrong.append("ACS redirects at bridge %s" % bridge)
    why = "bridges are read by root alone" if unread else ""
    return [Observation("pcie", "", list(wrong), why)] if gpus else []


def _is_gpu(device: str) -> bool:
    kind, vendor = read_text(device + "/class"), read_text(device + "/vendor").strip()
    return kind.startswith(_GPU_CLASSES) and vendor in _GPU_VENDORS


def _acs(config: bytes) -> Tuple[bool, bool]:
    """Whether the extended capabilities could be read, and whether ACS redirects there."""
    at, seen = _EXTENDED, set()
    while at and at not in seen and at + 8 <= len(config):
        seen.add(at)
        header, _, control = struct.unpack_from("<IHH", config, at)
        if header & 0xFFFF == _ACS:
            return True, bool(control & _REDIRECTS)
        at = header >> 20
    return len(config) > _EXTENDED, False
