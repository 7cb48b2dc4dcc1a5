"""GPUs from one long-lived ``nvidia-smi --query-gpu … -lms``, and who is on them from its compute-apps list.

Where there is no NVIDIA driver, AMD's GPUs are read from their driver's files.
"""

from __future__ import annotations

import os
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.child import find
from collectors.node.files import text
from collectors.node.gpus.amd import AmdGpus
from collectors.node.gpus.nvidia_smi_fields import rejected_field
from collectors.node.gpus.nvidia_smi_rows import APP_FIELDS, app_row, bus_key, gpu_row
from collectors.node.gpus.nvidia_smi_stream import FORMAT, GIVE_UP, NvidiaSmiStream
from collectors.node.gpus.roster import Roster
from collectors.node.network.fabric import SYS
from collectors.node.shared import Shared
from collectors.node.source import Absent, Source
from collectors.node.tool import Query, told
from collectors.samples.control import Settings
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.stream import Fault

APPS_PERIOD = 5.0
"""Seconds between two lists of processes."""
RELOOK = 30.0
"""Seconds after which a node without a driver is looked at again."""


class Gpus(Source):
    """GPUs of NVIDIA's or AMD's make."""

    name = "gpus"
    retry = 0.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._interval = 1.0
        self._opened: Optional[Tuple[NvidiaSmiStream, Query]] = None
        self._roster = Roster()
        self._amd = AmdGpus(shared, proc, os.environ.get(SYS, sys))
        self._apps_due = 0.0
        self._processes: List[GpuProcess] = []
        self._absent = ""
        self._absent_until = 0.0

    def configure(self, settings: Settings) -> None:
        """Stream at the new interval."""
        self._interval = settings.interval
        if self._opened is not None:
            self._opened[0].set_interval(settings.interval)

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (nvidia-smi's rows carry no time)
        """Rows since the last look, and the list of processes."""
        moment = time.monotonic()
        if moment < self._absent_until:
            yield from self._of_amd(self._absent_until - moment)
            return
        try:
            stream, apps = self._opened or self._open()
            yield from self._rows(stream)
            yield from self._who(stream, apps, moment)
        except Absent as reason:
            self._absent, self._absent_until = str(reason), moment + RELOOK
            self.close()
            yield from self._of_amd(RELOOK)
            return
        stream.judge()

    def _of_amd(self, rest: float) -> Iterator[NamedTuple]:
        """AMD's GPUs, where there are none of NVIDIA's: a server's processor may have one beside those."""
        if not self._amd.there():
            raise Absent(self._absent, rest)
        yield from self._amd.look()

    def close(self) -> None:
        """End what runs; a later look starts anew."""
        self._amd.close()
        if self._opened is not None:
            for process in self._opened:
                process.close()
            self._opened = None

    def _open(self) -> Tuple[NvidiaSmiStream, Query]:
        path = find("nvidia-smi")
        if path is None:
            raise Absent("no nvidia-smi on this node: no NVIDIA driver")
        query = "--query-compute-apps=" + ",".join(APP_FIELDS)
        self._opened = NvidiaSmiStream(path, self._interval, self.proc), Query([path, query, FORMAT], patience=GIVE_UP)
        return self._opened

    def _rows(self, stream: NvidiaSmiStream) -> Iterator[NamedTuple]:
        lines, ended = stream.lines()
        for line in lines:
            row = gpu_row(stream.keys, line)
            if row is not None:
                stream.heard()
                yield from self._roster.row(row)
            elif rejected_field(line) is None:
                yield from self._roster.line(line)
        if ended:
            yield from self._roster.broken_off()
            stream.settle()

    def _who(self, stream: NvidiaSmiStream, apps: Query, moment: float) -> Iterator[NamedTuple]:
        ended = apps.answer()
        if ended is not None and ended.status == 0:
            rows = [app_row(line) for line in text(ended.stdout).splitlines()]
            self._processes = [row for row in rows if row is not None]
            self.shared.computing = frozenset([row.pid for row in self._processes])
        elif ended is not None:
            how = "no answer" if ended.status is None else "status %d" % ended.status
            said = told("nvidia-smi", text(ended.stdout + ended.stderr).strip(), 200) or how
            yield Fault(self.name, "the list of GPU processes could not be read: %s" % said, 1)
        elif not apps.waits and stream.running and moment >= self._apps_due:
            self._apps_due = moment + APPS_PERIOD
            apps.ask()
            return
        if ended is not None or self._processes:
            shares = self.shared.sm_shares
            yield GpuProcesses([row._replace(sm=shares.get((bus_key(row.bus_id), row.pid))) for row in self._processes])
