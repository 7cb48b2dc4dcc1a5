"""AMD GPUs, read from world-readable sysfs files without a tool, in the same samples as NVIDIA's.

Files: "GPU Driver Developer's Guide" of the kernel, amdgpu (device/gpu_busy_percent, mem_info_vram_used …, unique_id,
product_name, ras/*_err_count), and its hwmon (power1_average or power1_input, in microwatts; temp*_input in thousandths
of a degree; freq1_input in hertz). Processes on a GPU: ``/sys/class/kfd/kfd/proc/PID/vram_GPUID``.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node.files import link, list_folder, read, read_int, read_text
from collectors.node.source import Absent
from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuProcesses, GpuSample

RESCAN = 30.0
"""Seconds between scans for new GPUs, and between samples of their stable properties."""
APPS_PERIOD = 5.0
"""Seconds between two lists of processes."""
VENDOR = "0x1002"
KFD = "class/kfd/kfd"
_CARD = re.compile(r"card\d{1,4}\Z")
_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_UNCORRECTED = re.compile(r"^ue: (\d{1,18})", re.MULTILINE)
UNKNOWN = GpuSample._make([0, *[None] * (len(GpuSample._fields) - 3), "", None])
"""A sample with all values unknown."""


class AmdCard(NamedTuple):
    """One GPU and its folder."""

    gpu: int
    """Index in order of PCI addresses, as HIP numbers them."""
    bus_id: str
    folder: str

    @property
    def hwmon(self) -> str:
        """Folder of its sensors; a non-existent folder if it has none."""
        return "%s/hwmon/%s" % (self.folder, (list_folder(self.folder + "/hwmon") or ["none"])[0])


class AmdGpus:
    """GPUs of one node."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._sys = sys
        self._cards: Dict[str, AmdCard] = {}
        self._scanned = self._apps = float("-inf")

    def read(self) -> Iterator[NamedTuple]:
        """Samples of all GPUs and their processes. A GPU that disappears from sysfs remains a fault.

        Raises :class:`Absent` on a node without AMD GPUs.
        """
        moment = time.monotonic()
        rescan = moment - self._scanned > RESCAN
        if rescan:
            self._scanned = moment
            present = {card.bus_id: card for card in cards(self._sys)}
            self._cards = present if present.keys() - self._cards.keys() else self._cards
        if not self._cards:
            raise Absent("no AMD GPU")
        for card in self._cards.values():
            try:
                row = sample(card)
            except (OSError, ValueError) as error:
                yield GpuFault(card.gpu, card.bus_id, "amdgpu: %s" % (getattr(error, "strerror", None) or error))
                continue
            yield GpuFault(card.gpu, card.bus_id, "")
            if rescan:
                yield facts(card)
            yield row
        if moment - self._apps > APPS_PERIOD:
            self._apps = moment
            yield GpuProcesses(list(processes(self._sys, self._proc)))


def cards(sys: str) -> List[AmdCard]:
    """AMD GPUs with memory of their own, ordered by PCI address."""
    found: Dict[str, str] = {}
    root = os.path.join(sys, "class/drm")
    for name in list_folder(root):
        folder = os.path.join(root, name, "device")
        bus = os.path.basename(link(folder))
        if not _CARD.match(name) or not _BUS.match(bus) or read_text(folder + "/vendor") != VENDOR:
            continue
        if os.path.exists(folder + "/mem_info_vram_total"):
            found.setdefault(bus, folder)
    return [AmdCard(index, bus, found[bus]) for index, bus in enumerate(sorted(found))]


def facts(card: AmdCard) -> GpuFacts:
    """Stable properties of a GPU."""
    folder = card.folder
    limit = read_int(card.hwmon + "/power1_cap")
    return GpuFacts(
        gpu=card.gpu,
        uuid=read_text(folder + "/unique_id"),
        bus_id=card.bus_id,
        name=read_text(folder + "/product_name") or "AMD GPU %s" % read_text(folder + "/device"),
        memory_total=read_int(folder + "/mem_info_vram_total"),
        power_limit=None if limit is None else limit / 1e6,
        sm_clock_max=None,
        pcie_gen_max=None,
        pcie_width_max=None,
    )


def sample(card: AmdCard) -> GpuSample:
    """Changing figures of a GPU. Raises :class:`OSError` if the driver gives no answer, as during a reset."""
    folder, hwmon = card.folder, card.hwmon
    used = int(read(folder + "/mem_info_vram_used"))
    powers = (read_int("%s/power1_%s" % (hwmon, name)) for name in ("average", "input"))
    power = next((value for value in powers if value is not None), None)
    clock = read_int(hwmon + "/freq1_input")
    # the hottest sensor is usually the junction
    degrees = (read_int("%s/temp%d_input" % (hwmon, number)) for number in range(1, 5))
    return UNKNOWN._replace(
        gpu=card.gpu,
        temperature=max((round(value / 1000) for value in degrees if value is not None), default=None),
        utilization=read_int(folder + "/gpu_busy_percent"),
        memory_used=used,
        power=None if power is None else power / 1e6,
        sm_clock=None if clock is None else clock // 1_000_000,
        ecc_uncorrected=_uncorrected(folder),
    )


def processes(sys: str, proc: str) -> Iterator[GpuProcess]:
    """Processes on each GPU, with the memory they use."""
    buses = _buses(sys)
    for pid in filter(str.isdigit, list_folder(os.path.join(sys, KFD, "proc"))):
        name = read_text("%s/%s/comm" % (proc, pid))  # empty: in another pid namespace, or gone
        for number, bus in buses.items() if name else ():
            memory = read_int(os.path.join(sys, KFD, "proc", pid, "vram_" + number))
            if memory:
                yield GpuProcess(bus, int(pid), memory, None, name)


def _buses(sys: str) -> Dict[str, str]:
    """PCI addresses by the compute driver's GPU id."""
    found: Dict[str, str] = {}
    root = os.path.join(sys, KFD, "topology/nodes")
    for node in list_folder(root):
        number = read_text(os.path.join(root, node, "gpu_id"))
        words = dict(re.findall(r"^(location_id|domain) (\d{1,10})$", read_text(root + "/%s/properties" % node), re.M))
        if number not in ("", "0") and "location_id" in words:
            at = int(words["location_id"])
            found[number] = "%04x:%02x:%02x.%x" % (int(words.get("domain", 0)), at >> 8 & 0xFF, at >> 3 & 0x1F, at & 7)
    return found


def _uncorrected(folder: str) -> Optional[int]:
    """Uncorrectable errors of all blocks since the driver was loaded; None without error counters."""
    names = [name for name in list_folder(folder + "/ras") if name.endswith("_err_count")]
    counts = [int(count) for name in names for count in _UNCORRECTED.findall(read_text("%s/ras/%s" % (folder, name)))]
    return sum(counts) if counts else None
