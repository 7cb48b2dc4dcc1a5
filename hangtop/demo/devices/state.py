"""What the simulated tools see: the hardware, the planted faults, and what each GPU's rank is doing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_stat
from hangtop.demo.job.device import KERNEL, RECORD, KernelKind

WAITING = 2.0
"""Seconds of one kernel after which it is taken for a collective that spins: no step here computes for so long."""


class Use(NamedTuple):
    """Who is on a GPU and what runs there. Times are CLOCK_MONOTONIC."""

    pid: int
    memory: int
    busy_since: float
    """0 when no kernel runs."""
    busy_before: float
    """Seconds of kernels that ended."""
    kernel: KernelKind = KernelKind.IDLE
    """What runs, where the rank says it."""

    def busy(self, now: float) -> float:
        """Seconds of kernels until ``now``."""
        return self.busy_before + (now - self.busy_since if self.busy_since else 0.0)

    def spins(self, now: float) -> bool:
        """True when the running kernel does not compute; unknown, when it has lasted longer than any that does."""
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
        """What runs on a GPU; :data:`IDLE` when nobody is there."""
        try:
            record = (self.folder / f"gpu{gpu}.state").read_bytes()
        except FileNotFoundError:
            return IDLE
        if len(record) not in (RECORD.size, RECORD.size + KERNEL.size):
            return IDLE
        pid, since, before, memory = RECORD.unpack_from(record)
        kernel = KERNEL.unpack_from(record, RECORD.size)[0] if len(record) > RECORD.size else 0
        return Use(pid, memory, since, before, KernelKind(kernel)) if _alive(pid) else IDLE


def _alive(pid: int) -> bool:
    stat = parse_stat(read_or_none(f"/proc/{pid}/stat") or b"")
    return stat is not None and stat.state not in "ZX"
