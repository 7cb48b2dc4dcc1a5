"""Sources ``gpus`` (one long-lived ``nvidia-smi --query-gpu … -lms``) and ``gpu_processes`` (its compute-apps list).

Without an NVIDIA driver, AMD GPUs are read from sysfs. No second nvidia-smi with the same arguments is started while
the first one exists: a hung driver may hold it in the kernel.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Deque, Iterator, List, NamedTuple

from collectors.node.child import LineStream, find, output
from collectors.node.gpus.amd import APPS_PERIOD, AmdGpus
from collectors.node.gpus.nvidia_smi import APP_FIELDS, GpuRoster, build_app, build_row, choose, rejected_field, split
from collectors.node.network.fabric import SYS
from collectors.node.source import Absent, Failed, Shared, Source
from collectors.samples.gpus import GpuProcesses, bus_key
from collectors.samples.stream import Settings

FORMAT = "--format=csv,noheader,nounits"
RELOOK = 30.0
"""Seconds after which a node without a driver is looked at again."""
FASTEST = 0.2
"""Seconds between two rows of a GPU at least: a higher rate loads the driver without new information."""
SILENCE = 4.0
"""Seconds without a line after which nvidia-smi counts as not responding, or four intervals if longer."""
GIVE_UP = 30.0
"""Seconds without a line after which nvidia-smi is killed; a new one is started once it is gone."""
BACK_OFF = 5.0
"""Seconds between starts of an nvidia-smi that ends by itself."""
LOADED = "/driver/nvidia/gpus"
"""Folder below /proc that exists while the driver is loaded."""
NO_TOOL = "no nvidia-smi on this node: no NVIDIA driver"
NO_DRIVER = ("No devices were found", "couldn't communicate with the NVIDIA driver")


class Gpus(Source):
    """NVIDIA or AMD GPUs."""

    name = "gpus"

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._interval = 1.0
        self._roster = GpuRoster()
        self._amd = AmdGpus(proc, os.environ.get(SYS, sys))
        self._absent = ""
        self._absent_until = 0.0
        self._stream = LineStream("nvidia-smi", BACK_OFF)
        self._columns = choose()
        self._rejected: List[str] = []
        self._answered = False
        """True once a row has been read."""
        self._failure = ""
        self._said: Deque[str] = deque(maxlen=8)
        """Its last lines since its last row: its error message when it ends."""

    def configure(self, settings: Settings) -> None:
        """Stream at the new interval, from a new process that starts when the present one is gone."""
        if settings.interval != self._interval:
            self._interval = settings.interval
            self._stream.kill()

    def read(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (nvidia-smi's rows carry no time)
        """Rows since the last read. Raises :class:`Failed` or :class:`NotResponding` when there are none."""
        moment = time.monotonic()
        self.retry = 0.0
        if moment >= self._absent_until:
            try:
                yield from self._rows()
            except Absent as reason:
                self._absent, self._absent_until = str(reason), moment + RELOOK
                self.close()
            else:
                if self._failure:
                    raise Failed(self._failure)
                self._stream.check(max(SILENCE, 4 * self._interval), max(GIVE_UP, 8 * self._interval))
                return
        try:
            yield from self._amd.read()  # last: a node with NVIDIA GPUs may have an AMD GPU in its processor
        except Absent:
            self.retry = self._absent_until - moment
            raise Absent(self._absent) from None

    def close(self) -> None:
        """End nvidia-smi; a later read starts a new one."""
        self._stream.end()

    def _command(self) -> List[str]:
        path = find("nvidia-smi")
        if path is None:
            raise Absent(NO_TOOL)
        milliseconds = int(max(FASTEST, self._interval) * 1000)
        return [path, "--query-gpu=" + ",".join(self._columns.values()), FORMAT, "-lms", str(milliseconds)]

    def _rows(self) -> Iterator[NamedTuple]:
        """Samples from nvidia-smi's lines since the last read. Raises :class:`Absent` without a driver."""
        for line in self._stream.lines(self._command, wait=1.5):
            row = build_row(split(line, list(self._columns)))
            if row is not None:
                self._answered, self._failure = True, ""
                self._said.clear()
                yield from self._roster.row(*row)
                continue
            self._said.append(line)
            if rejected_field(line) is None:
                yield from self._roster.line(line)
        if self._stream.status is not None:
            self._conclude(self._stream.status)

    def _conclude(self, status: int) -> None:
        """Evaluate nvidia-smi's last lines and exit status. Raises :class:`Absent` without a driver."""
        words = " ".join(self._said)[:500]
        self._said.clear()
        field = rejected_field(words)
        if field is not None and field not in self._rejected:
            self._rejected.append(field)
            self._columns = choose(self._rejected)
            self._stream.soon()
        elif any(sign in words for sign in NO_DRIVER) and not self._answered and not os.path.isdir(self.proc + LOADED):
            raise Absent(words)
        elif not self._stream.killed:
            self._failure = words or "nvidia-smi ended with status %d and no word" % status


class GpuUsers(Source):
    """Processes on NVIDIA GPUs, with their SM shares from NVML."""

    name = "gpu_processes"
    period = APPS_PERIOD
    deadline = 10.0

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """The compute-apps list. Raises :class:`Absent` on a node without nvidia-smi or driver."""
        query = "--query-compute-apps=" + ",".join(APP_FIELDS)
        printed, why = output("nvidia-smi", query, FORMAT, seconds=GIVE_UP)
        if why:
            raise (Absent if any(sign in printed + why for sign in NO_DRIVER) else Failed)(why)
        rows = filter(None, (build_app(split(line, APP_FIELDS)) for line in printed.splitlines()))
        shares = self.shared.sm_shares
        yield GpuProcesses([row._replace(sm=shares.get((bus_key(row.bus_id), row.pid))) for row in rows])
