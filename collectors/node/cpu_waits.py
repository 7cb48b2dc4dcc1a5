"""Source ``cpus``: how long the ranks' main threads were ready to run and had no CPU, and what kept them from one.

Formats: the second number of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), nanoseconds on a run queue,
those for which its control group was stopped among them; ``cpu.stat`` and ``cpu.max`` of cgroup v2,
``cpu.cfs_quota_us`` of v1 (Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst).
"""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Iterator, NamedTuple, Optional, Tuple

from collectors.node.cpu_groups import CpuGroup, groups_of
from collectors.node.files import read_or_none, text
from collectors.node.procfs import colon_field, parse_nice, parse_run_delay
from collectors.node.source import Absent, Shared, Source
from collectors.samples.ranks import CpuWait, RankProcess

WINDOW_S = 12.0
"""Seconds that a share is of: several steps of most jobs."""
KNOWN_S = 6.0
"""Seconds of watching before one is told."""
ROUNDED = 5
"""Per cent that a share is rounded to, so that one that stays as it is is told once."""
WORTH = 10
"""Per cent of waiting from which on a rank is told of; below it nothing is, but for one that waited more before."""


class _Reading(NamedTuple):
    """Counters of one rank at one moment."""

    at: float
    delay: float
    """Seconds that its main thread has waited for a CPU."""
    groups: Dict[str, CpuGroup]
    """Those above it that are limited, by path."""


class CpuSource(Source):
    """Waiting for a CPU, rank by rank."""

    name = "cpus"
    period = 4.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._readings: Dict[Tuple[int, float], Deque[_Reading]] = {}
        self._told: Dict[Tuple[int, float], CpuWait] = {}

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Ranks that wait, or did when last told of. Raises :class:`Absent` for a kernel without counts."""
        ranks = {(rank.pid, rank.started): rank for rank in self.shared.ranks}
        for known in [known for known in self._readings if known not in ranks]:
            del self._readings[known]
            self._told.pop(known, None)
        counts = False
        for key, rank in ranks.items():
            reading = self._read(rank, now)
            if reading is None:
                continue
            counts = True
            readings = self._readings.setdefault(key, deque())
            if readings and reading.at <= readings[-1].at:
                readings.clear()  # the clock was set back
            readings.append(reading)
            while len(readings) > 2 and readings[1].at <= now - WINDOW_S:
                readings.popleft()
            if reading.at - readings[0].at >= KNOWN_S:
                yield from self._news(key, self._share(rank.pid, readings[0], reading))
        if ranks and not counts:
            raise Absent("this kernel does not count how long a process waits for a CPU (schedstat)")

    def _news(self, key: Tuple[int, float], found: CpuWait) -> Iterator[CpuWait]:
        if found.waited >= WORTH or key in self._told:
            self._told[key] = found
            yield found

    def _read(self, rank: RankProcess, now: float) -> Optional[_Reading]:
        base = "%s/%d" % (self.proc, rank.pid)
        delay = parse_run_delay(read_or_none(base + "/schedstat") or b"")
        if delay is None:
            return None
        found = groups_of(read_or_none(base + "/cgroup") or b"", self.sys)
        return _Reading(now, delay, {group.path: group for group in found})

    def _share(self, pid: int, first: _Reading, last: _Reading) -> CpuWait:
        base = "%s/%d" % (self.proc, pid)
        allowed = text(colon_field(read_or_none(base + "/status") or b"", b"Cpus_allowed_list"))[:200]
        nice = parse_nice(read_or_none(base + "/stat") or b"")
        seconds = last.at - first.at
        group, throttled = "", None
        limit: Optional[float] = None
        for path, now in last.groups.items():
            share = _stopped(first.groups.get(path), now)
            if limit is None or (share or 0) > (throttled or 0):
                group, limit, throttled = path, now.cpus, share
        waited = _rounded((last.delay - first.delay) / seconds)
        return CpuWait(pid, waited, allowed, nice, group, limit, throttled)


def _stopped(before: Optional[CpuGroup], now: CpuGroup) -> Optional[int]:
    """Per cent of the periods between two readings in which a group was stopped; None where there was none."""
    periods = now.periods - before.periods if before else 0
    return _rounded((now.throttled - before.throttled) / periods) if before and periods > 0 else None


def _rounded(share: float) -> int:
    return max(0, min(100, ROUNDED * round(100.0 * share / ROUNDED)))
