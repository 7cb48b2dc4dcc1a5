"""Source ``cpus``: how long the ranks' main threads were ready to run and had no CPU, and what kept them from one.

Formats: the second number of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), nanoseconds on a run queue,
those for which its control group was stopped among them; ``cpu.stat`` and ``cpu.max`` of cgroup v2,
``cpu.cfs_quota_us`` of v1 (Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst).
"""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Iterator, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.files import read_or_none, text
from collectors.node.machine.cpu_groups import CpuGroup, groups_of
from collectors.node.processes.procfs import colon_field, parse_nice, parse_run_delay
from collectors.node.shared import Shared
from collectors.node.source import Absent, Source
from collectors.samples.ranks import CpuWait

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
    """Those above it that are limited, by path; of a rank that waits, others are not worth the reading."""


class CpuSource(Source):
    """Waiting for a CPU, rank by rank."""

    name = "cpus"
    period = 4.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._readings: Dict[Tuple[int, float], Deque[_Reading]] = {}
        self._told: Set[Tuple[int, float]] = set()

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Ranks that wait, or did when last told of. Raises :class:`Absent` for a kernel without counts."""
        ranks = {(rank.pid, rank.started): rank for rank in self.shared.ranks}
        for known in [known for known in self._readings if known not in ranks]:
            del self._readings[known]
            self._told.discard(known)
        counts = False
        for key, rank in ranks.items():
            delay = parse_run_delay(read_or_none("%s/%d/schedstat" % (self.proc, rank.pid)) or b"")
            if delay is None:
                continue
            counts = True
            readings = self._readings.setdefault(key, deque())
            if readings and now <= readings[-1].at:
                readings.clear()  # the clock was set back
            waits = bool(readings) and _waited(readings[-1], now, delay) >= WORTH
            readings.append(_Reading(now, delay, self._groups(rank.pid) if waits or key in self._told else {}))
            while len(readings) > 2 and readings[1].at <= now - WINDOW_S:
                readings.popleft()
            if now - readings[0].at >= KNOWN_S:
                yield from self._news(key, rank.pid, readings)
        if ranks and not counts:
            raise Absent("this kernel does not count how long a process waits for a CPU (schedstat)")

    def _groups(self, pid: int) -> Dict[str, CpuGroup]:
        found = groups_of(read_or_none("%s/%d/cgroup" % (self.proc, pid)) or b"", self.sys)
        return {group.path: group for group in found}

    def _news(self, key: Tuple[int, float], pid: int, readings: Sequence[_Reading]) -> Iterator[CpuWait]:
        waited = _waited(readings[0], readings[-1].at, readings[-1].delay)
        if waited < WORTH and not self._told:
            return  # once one here waits, all are told of: what the others have that it has not shows beside them alone
        if waited >= WORTH:
            self._told.add(key)
        else:
            self._told.discard(key)  # taken back below: where nobody waits any more nothing is read for it
        base = "%s/%d" % (self.proc, pid)
        allowed = text(colon_field(read_or_none(base + "/status") or b"", b"Cpus_allowed_list"))[:200]
        group, limit, throttled = _tightest(readings)
        yield CpuWait(pid, waited, allowed, parse_nice(read_or_none(base + "/stat") or b""), group, limit, throttled)


def _tightest(readings: Sequence[_Reading]) -> Tuple[str, Optional[float], Optional[int]]:
    """Of the limited groups the one that was stopped most: its path, its CPUs, and per cent of its periods."""
    group, throttled = "", None
    limit: Optional[float] = None
    for path, now in readings[-1].groups.items():
        share = _stopped(next(reading.groups[path] for reading in readings if path in reading.groups), now)
        if limit is None or (share or 0) > (throttled or 0):
            group, limit, throttled = path, now.cpus, share
    return group, limit, throttled


def _stopped(before: CpuGroup, now: CpuGroup) -> Optional[int]:
    """Per cent of the periods between two readings in which a group was stopped; None where there was none."""
    periods = now.periods - before.periods
    return _rounded((now.throttled - before.throttled) / periods) if periods > 0 else None


def _waited(since: _Reading, now: float, delay: float) -> int:
    """Per cent of the time since a reading in which the main thread waited for a CPU."""
    return _rounded((delay - since.delay) / (now - since.at))


def _rounded(share: float) -> int:
    return max(0, min(100, ROUNDED * round(100.0 * share / ROUNDED)))
