"""One node's simulated devices: tools on its PATH, ports in its sysfs, and faults in both."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from hangtop.demo.devices.infiniband import device

FAULTS: Final = (
    "gpu lost", "gpu missing", "gpu throttled", "gpu unlinked",
    "driver wedged", "driver dies", "driver gone",
    "port down",
)  # fmt: skip
"""Faults for :meth:`Bench.plant`; ``gpu`` and ``port`` get an index: ``gpu1 lost``, ``port0 down``."""

TOOLS: Final = {"nvidia-smi": ("nvidia_smi", "main"), "perfquery": ("infiniband", "perfquery")}
"""Module and function of each simulated tool."""
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware of the node."""

    gpus: int = 2
    ports: int = 2
    name: str = "NVIDIA H100 80GB HBM3"
    memory_mib: int = 81559
    driver: str = "550.54.15"
    hidden_fields: tuple[str, ...] = ()
    """Fields that nvidia-smi does not know."""


@dataclass(slots=True)
class Bench:
    """The simulated devices in one folder, which the ranks get as ``HANGTOP_DEMO_DEVICES``."""

    folder: Path
    hardware: Hardware = field(default_factory=Hardware)

    @property
    def bin(self) -> Path:
        """Folder of the tools, for the start of the PATH."""
        return self.folder / "bin"

    def install(self) -> None:
        """Write the tools and the description of the hardware."""
        self.bin.mkdir(parents=True, exist_ok=True)
        (self.folder / "hardware.json").write_text(json.dumps(asdict(self.hardware)))
        for tool, (module, function) in TOOLS.items():
            program = (
                f"import sys; sys.path.insert(0, {str(_ROOT)!r}); "
                f"from hangtop.demo.devices.{module} import {function}; sys.exit({function}(sys.argv[1:]))"
            )
            words = [sys.executable, "-S", "-E", "-B", "-c", program]
            path = self.bin / tool
            path.write_text(
                f'#!/bin/sh\nHANGTOP_DEMO_DEVICES={shlex.quote(str(self.folder))} exec {shlex.join(words)} "$@"\n'
            )
            path.chmod(0o755)
        self._show_ports(())

    def plant(self, *faults: str) -> None:
        """Let the tools show these faults from now on, and no others.

        Raises :class:`ValueError` for an unknown fault.
        """
        for fault in faults:
            target, _, what = fault.partition(" ")
            if f"{target.rstrip('0123456789')} {what}" not in FAULTS:
                raise ValueError(f"no such fault of a device: {fault}")
        # replaced, not written in place: a tool may be reading the file
        fresh = self.folder / "faults.new"
        fresh.write_text("".join(f"{fault}\n" for fault in faults))
        fresh.replace(self.folder / "faults")
        self._show_ports(faults)

    def _show_ports(self, faults: Sequence[str]) -> None:
        """Write the state of each port into the sysfs; perfquery gives the counters."""
        for port in range(self.hardware.ports):
            home = self.folder / "sys/class/infiniband" / device(port) / "ports/1"
            home.mkdir(parents=True, exist_ok=True)
            down = f"port{port} down" in faults
            state, phys_state, rate = ("1: DOWN", "2: Polling", 10) if down else ("4: ACTIVE", "5: LinkUp", 400)
            files = {"phys_state": phys_state, "rate": f"{rate} Gb/sec", "link_layer": "InfiniBand", "state": state}
            for name, text in files.items():
                (home / name).write_text(f"{text}\n")
