"""Input of the simulated tools: the hardware, the planted faults, and the activity of each GPU's rank."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_stat
from hangtop.demo.job.device import RECORD, KernelKind

WAITING = 2.0
"""Seconds after which a kernel counts as a spinning collective: no step here computes for so long."""


class Use(NamedTuple):
    """The process and the kernel on a GPU. Times are CLOCK_MONOTONIC."""

    pid: int
    memory: int
    busy_since: float
    """0 if no kernel runs."""
    busy_before: float
    """Seconds of finished kernels."""
    kernel: KernelKind = KernelKind.IDLE
    """Kernel that runs, if the rank records it."""

    def busy(self, now: float) -> float:
        """Seconds of kernels until ``now``."""
        return self.busy_before + (now - self.busy_since if self.busy_since else 0.0)

    def spins(self, now: float) -> bool:
        """True if the running kernel does not compute; an unknown kernel: if it runs longer than any computation."""
        if self.kernel is not KernelKind.IDLE:
            return self.kernel is not KernelKind.COMPUTES
        return bool(self.busy_since) and now - self.busy_since > WAITING


IDLE = Use(0, 0, 0.0, 0.0)


class DeviceFolder:
    """One node's folder of simulated devices."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["HANGTOP_DEMO_DEVICES"])
        self.hardware: dict[str, Any] = json.loads((self.folder / "hardware.json").read_text())

    def faults(self) -> set[str]:
        """Planted faults: ``gpu1 lost``."""
        try:
            return set((self.folder / "faults").read_text().splitlines())
        except FileNotFoundError:
            return set()

    def use(self, gpu: int) -> Use:
        """What runs on a GPU; :data:`IDLE` without a process there."""
        try:
            record = (self.folder / f"gpu{gpu}.state").read_bytes()
        except FileNotFoundError:
            return IDLE
        if len(record) != RECORD.size:
            return IDLE
        pid, since, before, memory, kernel = RECORD.unpack(record)
        return Use(pid, memory, since, before, KernelKind(kernel)) if _alive(pid) else IDLE


def _alive(pid: int) -> bool:
    stat = parse_stat(read_or_none(f"/proc/{pid}/stat") or b"")
    return stat is not None and stat.state not in "ZX"
