"""Figures of a simulated GPU, by the field names of nvidia-smi."""

from __future__ import annotations

import math
import time

from hangtop.demo.devices.state import IDLE, DeviceFolder, Use
from hangtop.demo.job.device import KernelKind

IDLE_WATTS, SPIN_WATTS, WORK_WATTS = 71.0, 252.0, 480.0
"""Power without kernels, in the spinning kernel of a collective, and in computing kernels, as on an H100."""
MAX_CLOCK, IDLE_CLOCK, SLOWED_CLOCK = 1980, 345, 1095


def bus_id(gpu: int) -> str:
    """PCI address of a GPU."""
    return f"00000000:{0x1A + 0x24 * gpu & 0xFF:02X}:00.0"


class GpuModel:
    """One GPU, read repeatedly by one process."""

    def __init__(self, node: DeviceFolder, index: int) -> None:
        self._node = node
        self._index = index
        self._last: tuple[int, float, float] | None = None

    def fields(self) -> dict[str, str]:
        """Value of every field, without units."""
        now = time.monotonic()
        use = self._node.use(self._index)
        faults = {fault.partition(" ")[2] for fault in self._node.faults() if fault.split()[0] == f"gpu{self._index}"}
        load = self._load(use, now)
        spinning = use.spins(now)
        slowed = "throttled" in faults and load > 0
        watts = IDLE_WATTS + load * ((SPIN_WATTS if spinning or slowed else _work_watts(use, now)) - IDLE_WATTS)
        clock = (SLOWED_CLOCK if slowed else MAX_CLOCK) if load else IDLE_CLOCK
        heat = 89 if slowed else round(24 + watts / 14)
        mask = 0x48 if slowed else 0x0 if load else 0x1
        return {
            **self._facts(),
            "pstate": "P0",
            "temperature.gpu": str(heat),
            "temperature.memory": str(heat - 8),
            "utilization.gpu": str(round(100 * load)),
            "utilization.memory": str(round(100 * load * (0.03 if spinning else 0.41))),
            "memory.used": str(use.memory >> 20),
            "power.draw": f"{watts:.2f}",
            "power.draw.instant": f"{watts:.2f}",
            "clocks.current.sm": str(clock),
            "clocks_event_reasons.active": f"0x{mask:016X}",
            "clocks_throttle_reasons.active": f"0x{mask:016X}",
            "pcie.link.gen.gpucurrent": "1" if not load else "5",
            "pcie.link.width.current": "16",
            "ecc.errors.uncorrected.volatile.total": "0",
            "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "No",
            "remapped_rows.uncorrectable": "0",
            "remapped_rows.pending": "No",
            "remapped_rows.failure": "No",
            "gpu_recovery_action": "None",
        }

    def _facts(self) -> dict[str, str]:
        hardware = self._node.hardware
        return {
            "index": str(self._index),
            "driver_version": hardware["driver"],
            "name": hardware["name"],
            "uuid": f"GPU-de300000-0000-4000-8000-{self._index:012x}",
            "pci.bus_id": bus_id(self._index),
            "memory.total": str(hardware["memory_mib"]),
            "power.limit": "700.00",
            "clocks.max.sm": str(MAX_CLOCK),
            "pcie.link.gen.max": "5",
            "pcie.link.width.max": "16",
            "mig.mode.current": "Disabled",
        }

    def _load(self, use: Use, now: float) -> float:
        """Share of the time since the last look during which a kernel ran, 0 to 1."""
        last, self._last = self._last, (use.pid, now, use.busy(now))
        if use is IDLE:
            return 0.0
        if last is None or last[0] != use.pid or now - last[1] < 0.01:
            return 1.0 if use.busy_since else 0.0
        return max(0.0, min(1.0, (use.busy(now) - last[2]) / (now - last[1])))


def _work_watts(use: Use, now: float) -> float:
    """Power while a kernel runs, in watts; it varies only for a kernel that is known to compute."""
    return WORK_WATTS + (60 * math.sin(7 * now) if use.kernel is KernelKind.COMPUTES else 0.0)
