"""The long-lived ``nvidia-smi --query-gpu … -lms``: started with the columns that the driver knows, and kept going."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Deque, FrozenSet, List, Optional, Tuple

from collectors.node.child import Child
from collectors.node.files import text
from collectors.node.gpus.nvidia_smi_fields import Columns, choose, known_fields, rejected_field
from collectors.node.source import Absent, Failed, NotResponding
from collectors.node.tool import Query, ToolLines, told

FORMAT = "--format=csv,noheader,nounits"
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


class NvidiaSmiStream:
    """Lines of one nvidia-smi. Nothing here waits for long, and no second process is started while one exists."""

    def __init__(self, path: str, interval: float, proc: str = "/proc") -> None:
        self._path = path
        self._interval = interval
        self._proc = proc
        self._help = Query([path, "--help-query-gpu"], patience=GIVE_UP)
        self._known: FrozenSet[str] = frozenset()
        self._columns: Optional[Columns] = None
        self._rejected: List[str] = []
        self._child: Optional[Child] = None
        self._killed = False
        self._out = ToolLines()
        self._err = ToolLines()
        self._begun = self._heard = time.monotonic()
        self._ever = False
        self._starts = 0
        self._start_due = 0.0
        self._failure = ""
        self._said: Deque[str] = deque(maxlen=8)
        """Its last lines since its last row: what it says when it ends."""

    @property
    def keys(self) -> Tuple[str, ...]:
        """Our names of the columns of a row."""
        return self._columns.keys if self._columns else ()

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
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _kill(self) -> None:
        if self._child is not None and not self._killed:
            self._child.kill()
            self._killed = True
            self._start_due = 0.0

    def lines(self) -> Tuple[List[str], bool]:
        """Lines since the last call, and whether the process has ended: :meth:`settle` then, after reading them.

        Raises :class:`~collectors.node.source.Absent` when the tool cannot be started.
        """
        if self._child is None and time.monotonic() >= self._start_due:
            self._start()
        if self._child is None:
            return [], False
        status = self._child.status
        lines = self._out.feed(self._child.read()) + self._err.feed(self._child.read_errors())
        if status is not None:
            lines += self._out.close() + self._err.close()
        said = [line.strip() for line in lines if line.strip()]
        self._said.extend(said)
        if said:
            self._heard = time.monotonic()
        return said, status is not None

    def settle(self) -> None:
        """Draw the conclusion from its end. Raises :class:`Absent` when there is no driver."""
        child, self._child = self._child, None
        assert child is not None
        status = child.status
        child.end()
        words = told("nvidia-smi", " ".join(self._said), 500)
        self._said.clear()
        field = rejected_field(words)
        if field is not None and field not in self._rejected:
            self._rejected.append(field)
            self._columns = choose(self._known, self._rejected)
            self._start_due = 0.0
        elif not self._ever and any(text in words for text in NO_DRIVER) and not self._driver_loaded():
            raise Absent(words)
        elif not self._killed:
            self._failure = words or "nvidia-smi ended with status %s and no word" % status

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
        if self._columns is None:
            self._help.ask()
            ended = self._help.wait(1.0)
            if ended is None:
                return
            self._known = known_fields(text(ended.stdout))
            self._columns = choose(self._known, self._rejected)
        query = "--query-gpu=" + ",".join(self._columns.fields)
        self._begun = time.monotonic()
        self._child = Child([self._path, query, FORMAT, "-lms", str(int(max(FASTEST, self._interval) * 1000))])
        self._out, self._err, self._killed = ToolLines(), ToolLines(), False
        self._start_due = self._begun + BACK_OFF[min(self._starts, len(BACK_OFF) - 1)]
        self._starts += 1
        self._child.wait_output(1.5)

    def _driver_loaded(self) -> bool:
        return os.path.isdir(os.path.join(self._proc, "driver/nvidia/gpus"))
