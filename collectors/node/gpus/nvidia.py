"""Source ``gpus``: NVIDIA's from one long-lived ``nvidia-smi --query-gpu … -lms`` and its compute-apps list.

Where there is no NVIDIA driver, AMD's GPUs are read from their driver's files.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Deque, Iterator, List, NamedTuple, Optional

from collectors.node.child import Child, Query, ToolLines, find, told
from collectors.node.files import text
from collectors.node.gpus.amd import AmdGpus
from collectors.node.gpus.nvidia_smi import (
    APP_FIELDS,
    GpuRoster,
    app_row,
    bus_key,
    choose,
    gpu_row,
    rejected_field,
)
from collectors.node.network.fabric import SYS
from collectors.node.source import Absent, Failed, NotResponding, Shared, Source
from collectors.samples.control import Settings
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.stream import Fault

FORMAT = "--format=csv,noheader,nounits"
APPS_PERIOD = 5.0
"""Seconds between two lists of processes."""
RELOOK = 30.0
"""Seconds after which a node without a driver is looked at again."""
FASTEST = 0.2
"""Seconds between two rows of a GPU at the least: asking more often costs the driver and says no more."""
SILENCE = 4.0
"""Seconds without a line after which nvidia-smi is said not to answer (whether the driver hangs, its age tells); four
intervals when those are longer."""
GIVE_UP = 30.0
"""Seconds without a line after which it is killed, and asked anew once it is gone."""
BACK_OFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between starts of a nvidia-smi that ends by itself."""
NO_DRIVER = ("No devices were found", "couldn't communicate with the NVIDIA driver")


class Gpus(Source):
    """GPUs of NVIDIA's or AMD's make."""

    name = "gpus"
    retry = 0.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._interval = 1.0
        self._stream: Optional[NvidiaSmiStream] = None
        self._roster = GpuRoster()
        self._amd = AmdGpus(shared, proc, os.environ.get(SYS, sys))
        self._apps_due = 0.0
        self._processes: List[GpuProcess] = []
        self._absent = ""
        self._absent_until = 0.0

    def configure(self, settings: Settings) -> None:
        """Stream at the new interval."""
        self._interval = settings.interval
        if self._stream is not None:
            self._stream.set_interval(settings.interval)

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (nvidia-smi's rows carry no time)
        """Rows since the last look, and the list of processes."""
        moment = time.monotonic()
        if moment >= self._absent_until:
            try:
                stream = self._open()
                yield from self._rows(stream)
                yield from self._who(stream, moment)
                stream.judge()
            except Absent as reason:
                self._absent, self._absent_until = str(reason), moment + RELOOK
                self.close()
            else:
                return
        if not self._amd.there():  # a server's processor may have one beside NVIDIA's: those come first
            raise Absent(self._absent, self._absent_until - moment)
        yield from self._amd.look()

    def close(self) -> None:
        """End what runs; a later look starts anew."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> NvidiaSmiStream:
        if self._stream is None:
            path = find("nvidia-smi")
            if path is None:
                raise Absent("no nvidia-smi on this node: no NVIDIA driver")
            self._stream = NvidiaSmiStream(path, self._interval, self.proc)
        return self._stream

    def _rows(self, stream: NvidiaSmiStream) -> Iterator[NamedTuple]:
        keys = stream.keys
        for line in stream.lines():
            row = gpu_row(keys, line)
            if row is not None:
                stream.heard()
                yield from self._roster.row(row)
            elif rejected_field(line) is None:
                yield from self._roster.line(line)
        stream.settle()

    def _who(self, stream: NvidiaSmiStream, moment: float) -> Iterator[NamedTuple]:
        ended = stream.apps.answer()
        if ended is not None and ended.status == 0:
            rows = [app_row(line) for line in text(ended.stdout).splitlines()]
            self._processes = [row for row in rows if row is not None]
            self.shared.computing = frozenset([row.pid for row in self._processes])
        elif ended is not None:
            how = "no answer" if ended.status is None else "status %d" % ended.status
            said = told("nvidia-smi", text(ended.stdout + ended.stderr).strip(), 200) or how
            yield Fault(self.name, "the list of GPU processes could not be read: %s" % said, 1)
        elif stream.running and moment >= self._apps_due:
            self._apps_due = moment + APPS_PERIOD
            stream.apps.ask()
        if ended is not None or self._processes:
            shares = self.shared.sm_shares
            yield GpuProcesses([row._replace(sm=shares.get((bus_key(row.bus_id), row.pid))) for row in self._processes])


class NvidiaSmiStream:
    """Lines of one nvidia-smi. Nothing here waits for long, and no second process is started while one exists."""

    def __init__(self, path: str, interval: float, proc: str = "/proc") -> None:
        self.apps = Query([path, "--query-compute-apps=" + ",".join(APP_FIELDS), FORMAT], patience=GIVE_UP)
        """The list of processes on GPUs."""
        self._path = path
        self._interval = interval
        self._proc = proc
        self._columns = choose()
        self._rejected: List[str] = []
        self._child: Optional[Child] = None
        self._killed = False
        self._ended: Optional[int] = None
        self._out = self._err = ToolLines()
        self._begun = self._heard = time.monotonic()
        self._ever = False
        self._starts = 0
        self._start_due = 0.0
        self._failure = ""
        self._said: Deque[str] = deque(maxlen=8)
        """Its last lines since its last row: what it says when it ends."""

    @property
    def keys(self) -> List[str]:
        """Our names of the columns of a row."""
        return list(self._columns)

    @property
    def running(self) -> bool:
        """True while its process exists."""
        return self._child is not None

    def heard(self) -> None:
        """Note that one of its lines was a row."""
        self._ever = True
        self._starts, self._failure = 0, ""
        self._said.clear()

    def set_interval(self, interval: float) -> None:
        """Give rows every ``interval`` seconds, from a process that is started when the present one is gone."""
        if interval != self._interval:
            self._interval = interval
            self._kill()

    def close(self) -> None:
        """End its processes."""
        self.apps.close()
        if self._child is not None:
            self._child.end()
            self._child = None

    def _kill(self) -> None:
        if self._child is not None and not self._killed:
            self._child.kill()
            self._killed = True
            self._start_due = 0.0

    def lines(self) -> List[str]:
        """Lines since the last call. Raises :class:`~collectors.node.source.Absent` when it cannot be started."""
        if self._child is None and time.monotonic() >= self._start_due:
            self._start()
        if self._child is None:
            return []
        self._ended = self._child.status
        lines = self._out.feed(self._child.read()) + self._err.feed(self._child.read_errors())
        if self._ended is not None:
            lines += self._out.close() + self._err.close()
        said = [line.strip() for line in lines if line.strip()]
        self._said.extend(said)
        if said:
            self._heard = time.monotonic()
        return said

    def settle(self) -> None:
        """Draw the conclusion from its end, if it has ended. Raises :class:`Absent` when there is no driver."""
        if self._child is None or self._ended is None:
            return
        self._child.end()
        self._child = None
        words = told("nvidia-smi", " ".join(self._said), 500)
        self._said.clear()
        field = rejected_field(words)
        if field is not None and field not in self._rejected:
            self._rejected.append(field)
            self._columns = choose(self._rejected)
            self._start_due = 0.0
        elif not self._ever and any(text in words for text in NO_DRIVER) and not self._driver_loaded():
            raise Absent(words)
        elif not self._killed:
            self._failure = words or "nvidia-smi ended with status %s and no word" % self._ended

    def judge(self) -> None:
        """Raise :class:`Failed` or :class:`NotResponding` when it gives no rows; end one that has long been silent."""
        moment = time.monotonic()
        if moment - max(self._heard, self._begun) > max(GIVE_UP, 8 * self._interval):
            self._kill()
        if self._failure:
            raise Failed(self._failure)
        age = moment - self._heard
        if age > max(SILENCE, 4 * self._interval):
            raise NotResponding("nvidia-smi", age)

    def _start(self) -> None:
        query = "--query-gpu=" + ",".join(self._columns.values())
        self._begun = time.monotonic()
        self._child = Child([self._path, query, FORMAT, "-lms", str(int(max(FASTEST, self._interval) * 1000))])
        self._out, self._err, self._killed = ToolLines(), ToolLines(), False
        self._start_due = self._begun + BACK_OFF[min(self._starts, len(BACK_OFF) - 1)]
        self._starts += 1
        self._child.wait_output(1.5)

    def _driver_loaded(self) -> bool:
        return os.path.isdir(os.path.join(self._proc, "driver/nvidia/gpus"))
