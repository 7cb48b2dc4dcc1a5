"""Control groups that limit the CPU time of a process, and how often they were stopped for it."""

from __future__ import annotations

from itertools import islice
from typing import Dict, List, NamedTuple, Optional

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_controller, parse_unified, upward

MOST = 16
"""Groups above a process that are looked at."""


class CpuGroup(NamedTuple):
    """One with a limit, and its counters since it was made."""

    path: str
    """Below the mount of the controller; ``/`` for the root, which in a cgroup namespace is a container's."""
    cpus: float
    """CPUs that it may use."""
    periods: int
    """Periods of enforcement, usually 0.1 s each, in which it had something to run, …"""
    throttled: int
    """… and those of them in which it was stopped because its time was used up."""


def groups_of(cgroup: bytes, sys: str) -> List[CpuGroup]:
    """The limited ones among a process's own group and those above it; ``cgroup`` is its /proc/PID/cgroup."""
    own = parse_controller(cgroup, "cpu")
    unified = own is None
    mount = sys + "/fs/cgroup" + ("" if unified else "/cpu")
    found: List[CpuGroup] = []
    for path in islice(upward((parse_unified(cgroup) if own is None else own)[:4096]), MOST):
        cpus = _limit_v2(mount + path) if unified else _limit_v1(mount + path)
        if cpus is not None:
            counts = _counts(read_or_none(mount + path + "/cpu.stat") or b"")
            found.append(CpuGroup(path or "/", cpus, counts.get(b"nr_periods", 0), counts.get(b"nr_throttled", 0)))
    return found


def _limit_v2(folder: str) -> Optional[float]:
    """CPUs of ``cpu.max``: "50000 100000"; None for "max 100000"."""
    words = (read_or_none(folder + "/cpu.max") or b"").split()
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _limit_v1(folder: str) -> Optional[float]:
    """CPUs of a quota and a period, microseconds each; None for a quota of -1."""
    quota = (read_or_none(folder + "/cpu.cfs_quota_us") or b"").strip()
    return _ratio(quota, (read_or_none(folder + "/cpu.cfs_period_us") or b"").strip())


def _ratio(quota: bytes, period: bytes) -> Optional[float]:
    if not (quota.isdigit() and period.isdigit() and len(quota) < 16 and len(period) < 16) or int(period) == 0:
        return None
    return round(int(quota) / int(period), 3)


def _counts(data: bytes) -> Dict[bytes, int]:
    pairs = [line.split() for line in data.splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit() and len(pair[1]) < 20}
