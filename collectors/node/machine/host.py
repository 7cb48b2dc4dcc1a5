"""Source ``host``: load, memory and pressure."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from collectors.node.files import read_or_none, read_text
from collectors.node.processes.procfs import boot_time
from collectors.node.source import Shared, Source
from collectors.samples.host import HostFacts, HostSample

_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


class HostSource(Source):
    """The machine as a whole."""

    name = "host"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", shm: str = "/dev/shm") -> None:
        super().__init__(shared, proc, sys)
        self._shm = shm
        self._booted = round(boot_time(), 1)
        self._versions = self._read_versions()

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """Facts (the filter keeps them from being sent twice) and what moves."""
        memory = parse_meminfo(read_or_none(self.proc + "/meminfo") or b"")
        yield HostFacts(
            cpus=os.cpu_count() or 1,
            memory_total=memory.get("MemTotal", 0),
            booted=self._booted,
            versions=self._versions,
        )
        load, running = parse_loadavg(read_or_none(self.proc + "/loadavg") or b"")
        total, used = _usage(self._shm)
        yield HostSample(
            load=load,
            running=running,
            memory_available=memory.get("MemAvailable", memory.get("MemFree", 0)),
            shm_total=total,
            shm_used=used,
            pressure_io=parse_pressure(read_or_none(self.proc + "/pressure/io") or b""),
        )

    def _read_versions(self) -> Dict[str, str]:
        """Versions of the drivers that are loaded."""
        said = _DRIVER.search(read_text(self.proc + "/driver/nvidia/version"))
        driver = said.group(1) if said else read_text(self.sys + "/module/nvidia/version")
        found = {"nvidia": driver, "ofed": read_text(self.sys + "/module/mlx5_core/version")}
        return {name: version for name, version in found.items() if version}


def parse_meminfo(data: bytes) -> Dict[str, int]:
    """Bytes by name of /proc/meminfo."""
    return {
        found.group(1).decode(): int(found.group(2)) * 1024
        for found in re.finditer(rb"^(\w+):[ \t]+(\d{1,18}) kB", data, re.M)
    }


def parse_loadavg(data: bytes) -> Tuple[float, int]:
    """Load of the last minute, and running tasks, of /proc/loadavg."""
    found = re.match(rb"(\d{1,9}\.\d+) \S+ \S+ (\d{1,9})/", data)
    return (float(found.group(1)), int(found.group(2))) if found else (0.0, 0)


def parse_pressure(data: bytes) -> Optional[float]:
    """Per cent of the last 10 s in which some task waited; None where the kernel does not tell."""
    found = re.match(rb"some avg10=(\d{1,3}\.\d+)", data)
    return float(found.group(1)) if found else None


def _usage(path: str) -> Tuple[Optional[int], Optional[int]]:
    """Total and used bytes of the file system at a path that is local for certain."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None, None
    return status.f_blocks * status.f_frsize, (status.f_blocks - status.f_bfree) * status.f_frsize
