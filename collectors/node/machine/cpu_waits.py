"""Source ``cpus``: how long the ranks' main threads were ready to run and had no CPU.

Format: the second number of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), nanoseconds on a run queue.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Iterator, NamedTuple, Set, Tuple

from collectors.node.files import read_or_none, text
from collectors.node.processes.procfs import colon_field, parse_run_delay, read_stat
from collectors.node.source import Absent, Shared, Source
from collectors.samples.ranks import CpuWait

WINDOW_S = 12.0
"""Seconds over which a share is measured: several steps of most jobs."""
KNOWN_S = 6.0
"""Seconds of watching before a share is sent."""
ROUNDED = 5
"""Per cent that a share is rounded to, so that a share that stays as it is is sent once."""
WORTH = 10
"""Per cent from which on a rank counts as waiting. While one rank of the node does, all of them are sent."""


class _Reading(NamedTuple):
    at: float
    delay: float
    """Seconds that the main thread has waited for a CPU so far."""


class CpuSource(Source):
    """Waiting for a CPU, rank by rank."""

    name = "cpus"
    period = 4.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._readings: Dict[Tuple[int, float], Deque[_Reading]] = {}
        self._waiting: Set[Tuple[int, float]] = set()

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Ranks that wait, or that did at the last look. Raises :class:`Absent` for a kernel without counts."""
        ranks = {(rank.pid, rank.started): rank for rank in self.shared.ranks}
        self._readings = {key: readings for key, readings in self._readings.items() if key in ranks}
        self._waiting &= ranks.keys()
        counts = False
        for key, rank in ranks.items():
            delay = parse_run_delay(read_or_none("%s/%d/schedstat" % (self.proc, rank.pid)) or b"")
            if delay is None:
                continue
            counts = True
            readings = self._readings.setdefault(key, deque())
            if readings and now <= readings[-1].at:
                readings.clear()  # the clock was set back
            readings.append(_Reading(now, delay))
            while len(readings) > 2 and readings[1].at <= now - WINDOW_S:
                readings.popleft()
            if now - readings[0].at >= KNOWN_S:
                yield from self._changed(key, rank.pid, readings)
        if ranks and not counts:
            raise Absent("this kernel does not count how long a process waits for a CPU (schedstat)")

    def _changed(self, key: Tuple[int, float], pid: int, readings: Deque[_Reading]) -> Iterator[CpuWait]:
        share = (readings[-1].delay - readings[0].delay) / (readings[-1].at - readings[0].at)
        waited = max(0, min(100, ROUNDED * round(100.0 * share / ROUNDED)))
        if waited < WORTH and not self._waiting:
            return
        if waited >= WORTH:
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        status, stat = read_or_none("%s/%d/status" % (self.proc, pid)) or b"", read_stat(self.proc, pid)
        allowed = text(colon_field(status, b"Cpus_allowed_list"))[:200]
        yield CpuWait(pid, waited, allowed, 0 if stat is None else stat.nice)
