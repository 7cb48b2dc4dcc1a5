"""Source ``host``: load, memory and pressure."""

from __future__ import annotations

import os
import re
from typing import Iterator, NamedTuple

from collectors.node.files import read_or_none, read_text
from collectors.node.processes.procfs import boot_time, colon_field
from collectors.node.source import Shared, Source
from collectors.samples.host import HostSample

_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_LOAD = re.compile(r"(\d{1,9}\.\d+) ")
_PRESSURE = re.compile(r"some avg10=(\d{1,3}\.\d+)")


class HostSource(Source):
    """The machine as a whole."""

    name = "host"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._booted = round(boot_time(), 1)
        said = _DRIVER.search(read_text(self.proc + "/driver/nvidia/version"))
        driver = said.group(1) if said else read_text(self.sys + "/module/nvidia/version")
        found = {"nvidia": driver, "ofed": read_text(self.sys + "/module/mlx5_core/version")}
        self._versions = {name: version for name, version in found.items() if version}

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """One sample."""
        memory = read_or_none(self.proc + "/meminfo") or b""
        load, pressure = (
            pattern.match(read_text(self.proc + path))
            for pattern, path in ((_LOAD, "/loadavg"), (_PRESSURE, "/pressure/io"))
        )
        yield HostSample(
            cpus=os.cpu_count() or 1,
            memory_total=_kibibytes(memory, b"MemTotal"),
            booted=self._booted,
            versions=self._versions,
            load=float(load.group(1)) if load else 0.0,
            memory_available=_kibibytes(memory, b"MemAvailable"),
            pressure_io=float(pressure.group(1)) if pressure else None,
        )


def _kibibytes(memory: bytes, name: bytes) -> int:
    """Value of a row of /proc/meminfo in bytes; 0 if the row is missing."""
    size = colon_field(memory, name)[:20].partition(b" ")[0]
    return int(size) * 1024 if size.isdigit() else 0
