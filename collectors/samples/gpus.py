"""GPUs, by nvidia-smi and NVML."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional


class GpuFacts(NamedTuple):
    """Properties of a GPU that do not change."""

    gpu: int
    """Index as nvidia-smi numbers them."""
    uuid: str
    bus_id: str
    name: str
    memory_total: Optional[int]
    power_limit: Optional[float]
    sm_clock_max: Optional[int]
    pcie_gen_max: Optional[int]
    pcie_width_max: Optional[int]


class GpuSample(NamedTuple):
    """One row of nvidia-smi."""

    gpu: int
    temperature: Optional[int]
    memory_temperature: Optional[int]
    utilization: Optional[int]
    """Per cent of the last sample period in which a kernel ran."""
    memory_utilization: Optional[int]
    memory_used: Optional[int]
    power: Optional[float]
    sm_clock: Optional[int]
    event_reasons: Optional[int]
    """Bit mask of clocks_event_reasons.active (clocks_throttle_reasons before driver 535)."""
    pcie_gen: Optional[int]
    pcie_width: Optional[int]
    ecc_uncorrected: Optional[int]
    sram_threshold_exceeded: Optional[bool]
    remapped_uncorrectable: Optional[int]
    remap_pending: Optional[bool]
    remap_failure: Optional[bool]
    recovery_action: str
    odd: Optional[Dict[str, str]] = None
    """Invalid values, verbatim by field: ``ERR!``. None if empty: thousands of empty dicts take a megabyte."""


class GpuProcess(NamedTuple):
    """A process on a GPU, from the compute-apps list."""

    bus_id: str
    pid: int
    memory: Optional[int]
    sm: Optional[int]
    """Per cent of the SMs; None unless NVML reports it."""
    name: str


class GpuProcesses(NamedTuple):
    """The whole compute-apps list; sent when it changes."""

    processes: List[GpuProcess]


class GpuFault(NamedTuple):
    """A line of nvidia-smi that is no data row, verbatim, or a missing GPU; an empty text ends this GPU's fault."""

    gpu: Optional[int]
    bus_id: str
    text: str


class NvlinkCounters(NamedTuple):
    """Errors and traffic of one NVLink."""

    gpu: int
    link: int
    active: bool
    replay_errors: Optional[int]
    recovery_errors: Optional[int]
    crc_errors: Optional[int]
    received: Optional[int]
    sent: Optional[int]


def bus_key(bus_id: str) -> str:
    """Return a PCI address in canonical form, ``0000:5f:00``: a domain of four digits, lower case, no function.

    NVML writes ``00000000:5F:00.0``, the kernel ``0000:5f:00``, some tools ``PCI:0000:5F:00.0`` or ``5f:00.0``.
    """
    parts = ["0000", *bus_id.strip().lower().replace("pci:", "").partition(".")[0].split(":")][-3:]
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]]) if len(parts) == 3 else parts[-1]
