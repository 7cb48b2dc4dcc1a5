"""AMD's GPUs as their driver shows them: world-readable files of sysfs, no tool and no rights.

Files: "GPU Driver Developer's Guide" of the kernel, amdgpu (device/gpu_busy_percent, mem_busy_percent,
mem_info_vram_used …, unique_id, product_name, ras/*_err_count), and its hwmon (power1_average or power1_input, in
microwatts; temp*_input in thousandths of a degree, told apart by temp*_label: edge, junction, mem; freq1_input in
hertz). Who computes on them: ``/sys/class/kfd/kfd/proc/PID/vram_GPUID``.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node.files import link, list_folder, read, read_int, read_text, text
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuSample

VENDOR = "0x1002"
DRM = "class/drm"
KFD = "class/kfd/kfd"
_CARD = re.compile(r"card\d{1,4}\Z")
_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_LEVEL = re.compile(r"(\d{1,3}): (\d{1,6})Mhz", re.IGNORECASE)
_UNCORRECTED = re.compile(r"^ue: (\d{1,18})", re.MULTILINE)
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6}


UNKNOWN = GpuSample._make([0, "", *[None] * 16, "", None])
"""A sample of which nothing is known."""


class AmdCard(NamedTuple):
    """One GPU and its folder."""

    gpu: int
    """Counted by PCI address, as amd-smi and HIP number them."""
    bus_id: str
    folder: str


def cards(sys: str) -> List[AmdCard]:
    """AMD's GPUs that hold memory of their own, by PCI address."""
    found: Dict[str, str] = {}
    root = os.path.join(sys, DRM)
    for name in list_folder(root):
        folder = os.path.join(root, name, "device")
        bus = os.path.basename(link(folder))
        if not _CARD.match(name) or not _BUS.match(bus) or read_text(folder + "/vendor") != VENDOR:
            continue
        if os.path.exists(folder + "/mem_info_vram_total"):
            found.setdefault(bus, folder)
    return [AmdCard(index, bus, found[bus]) for index, bus in enumerate(sorted(found))]


def facts(card: AmdCard, sys: str) -> GpuFacts:
    """What does not move."""
    folder, hwmon = card.folder, _hwmon(card.folder)
    limit = None if hwmon is None else read_int(hwmon + "/power1_cap")
    levels = _LEVEL.findall(read_text(folder + "/pp_dpm_sclk"))
    name = read_text(folder + "/product_name") or "AMD GPU %s" % read_text(folder + "/device")
    return GpuFacts(
        card.gpu, read_text(folder + "/unique_id"), card.bus_id, name, read_text(sys + "/module/amdgpu/version"),
        read_int(folder + "/mem_info_vram_total"), None if limit is None else limit / 1e6,
        max((int(clock) for _, clock in levels), default=None), _generation(folder + "/max_link_speed"),
        read_int(folder + "/max_link_width"), "",
    )  # fmt: skip


def sample(card: AmdCard) -> GpuSample:
    """What moves. Raises :class:`OSError` where the driver does not answer for this GPU, as while it is being reset."""
    folder, hwmon = card.folder, _hwmon(card.folder)
    used = int(read(folder + "/mem_info_vram_used"))
    temperatures = {} if hwmon is None else _temperatures(hwmon)
    power = None if hwmon is None else _first(hwmon + "/power1_average", hwmon + "/power1_input")
    clock = None if hwmon is None else read_int(hwmon + "/freq1_input")
    return UNKNOWN._replace(
        gpu=card.gpu,
        temperature=temperatures.get("junction", temperatures.get("edge")),
        memory_temperature=temperatures.get("mem"),
        utilization=read_int(folder + "/gpu_busy_percent"),
        memory_utilization=read_int(folder + "/mem_busy_percent"),
        memory_used=used,
        power=None if power is None else power / 1e6,
        sm_clock=None if clock is None else clock // 1_000_000,
        pcie_gen=_generation(folder + "/current_link_speed"),
        pcie_width=read_int(folder + "/current_link_width"),
        ecc_uncorrected=_uncorrected(folder),
    )


def processes(sys: str, proc: str) -> Iterator[GpuProcess]:
    """Who computes on which GPU, and with how much of its memory."""
    buses: Optional[Dict[str, str]] = None
    for pid in filter(str.isdigit, list_folder(os.path.join(sys, KFD, "proc"))):
        name = read_text("%s/%s/comm" % (proc, pid))
        if not name:
            continue  # of another pid namespace, or gone
        buses = _buses(sys) if buses is None else buses
        folder = os.path.join(sys, KFD, "proc", pid)
        for entry in list_folder(folder):
            bus = buses.get(entry[len("vram_") :]) if entry.startswith("vram_") else None
            memory = None if bus is None else read_int(os.path.join(folder, entry))
            if bus is not None and memory:
                yield GpuProcess(bus, int(pid), memory, None, name)


def _buses(sys: str) -> Dict[str, str]:
    """PCI addresses by the number that the compute driver gives a GPU."""
    found: Dict[str, str] = {}
    root = os.path.join(sys, KFD, "topology/nodes")
    for node in list_folder(root):
        number = read_text(os.path.join(root, node, "gpu_id"))
        lines = read_text(os.path.join(root, node, "properties")).splitlines()
        words = {name: value for name, _, value in (line.partition(" ") for line in lines)}
        place, domain = words.get("location_id", ""), words.get("domain", "0")
        if number not in ("", "0") and place.isdigit() and domain.isdigit():
            at = int(place)
            found[number] = "%04x:%02x:%02x.%x" % (int(domain), at >> 8 & 0xFF, at >> 3 & 0x1F, at & 7)
    return found


def _hwmon(folder: str) -> Optional[str]:
    names = list_folder(folder + "/hwmon")
    return "%s/hwmon/%s" % (folder, names[0]) if names else None


def _temperatures(hwmon: str) -> Dict[str, int]:
    """Whole degrees by sensor."""
    found: Dict[str, int] = {}
    for number in range(1, 5):
        value = read_int("%s/temp%d_input" % (hwmon, number))
        if value is not None:
            found[read_text("%s/temp%d_label" % (hwmon, number)) or "edge"] = round(value / 1000)
    return found


def _first(*paths: str) -> Optional[int]:
    values = [value for value in map(read_int, paths) if value is not None]
    return values[0] if values else None


def _uncorrected(folder: str) -> Optional[int]:
    """Uncorrectable errors of all blocks since the driver was loaded; None where it counts none."""
    names = [name for name in list_folder(folder + "/ras") if name.endswith("_err_count")]
    counts = [int(count) for name in names for count in _UNCORRECTED.findall(read_text("%s/ras/%s" % (folder, name)))]
    return sum(counts) if counts else None


def _generation(path: str) -> Optional[int]:
    found = _SPEED.search(read_text(path))
    return GENERATIONS.get(found.group(1)) if found else None


def why_not(error: OSError) -> str:
    """The driver's refusal in words; it answers "not permitted" to everything while it resets a GPU."""
    said = error.strerror or str(error)
    return "amdgpu: %s" % text(said.encode()) + (" (its driver resets it)" if error.errno == 1 else "")
