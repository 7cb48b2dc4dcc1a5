"""Kills for want of memory as control groups count them, which anybody may read: the kernel's log is often refused.

``oom_kill`` counts the processes of a group that any kind of OOM killer has killed: in ``memory.events`` of cgroup v2
together with those of the groups below, in ``memory.oom_control`` of v1 (Linux 4.13) of the group alone
(Documentation/admin-guide/cgroup-v2.rst, mm/memcontrol.c). Which process it was no counter tells.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, NamedTuple, Optional

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_cgroup, upward
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankProcess
from collectors.samples.values import Value

KIND = "cgroup.oom_kill"
MOST = 64
"""Groups of ranks that are looked at."""


class _Group(NamedTuple):
    path: str
    """Below the mount of the memory controller; empty for the root, which in a cgroup namespace is a container's."""
    file: str


class OomCounts:
    """Remembers how many kills each group of the ranks, and those above it, had."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._mount = sys + "/fs/cgroup"
        self._counts: Dict[_Group, Dict[_Group, int]] = {}
        """By a group of ranks: its own count, then those of the groups above it."""

    def look(self, ranks: Iterable[RankProcess], now: float) -> Iterator[LogEvent]:
        """A kill in a group of these ranks, or of some that have gone, since the last look.

        A group is counted from when it was first seen. Where it has gone with its ranks, what the lowest group above it
        counts is told once: later kills are of others.
        """
        for rank in ranks:  # each time: a batch system may put one into its group when it runs already
            way = self._groups(rank.pid)
            own = next(iter(way))
            if own not in self._counts and len(self._counts) < MOST:
                self._counts[own] = {group: count for group, count in way.items() if count is not None}
        grown: Dict[_Group, int] = {}
        for own, before in list(self._counts.items()):
            counts = {group: count for group in before for count in [_killed(group.file)] if count is not None}
            lowest = next(iter(counts), None)
            if lowest is not None and counts[lowest] > before[lowest]:
                grown[lowest] = counts[lowest] - before[lowest]
            self._counts[own] = counts
            if lowest != own:
                del self._counts[own]
        for group, kills in grown.items():
            data: Dict[str, Value] = {"cgroup": group.path or "/", "kills": kills}
            yield LogEvent(KIND, now, None, "", None, group.file, 0, "oom_kill has grown by %d" % kills, data)

    def _groups(self, pid: int) -> Dict[_Group, Optional[int]]:
        cgroup = parse_cgroup(read_or_none("%s/%d/cgroup" % (self._proc, pid)) or b"")
        mount = self._mount + ("" if cgroup.unified else "/memory")
        name = "/memory.events" if cgroup.unified else "/memory.oom_control"
        groups = [_Group(path, mount + path + name) for path in upward(cgroup.memory_path)]
        return {group: _killed(group.file) for group in groups}


def _killed(path: str) -> Optional[int]:
    """The counter ``oom_kill`` of such a file; None where there is none."""
    for line in (read_or_none(path) or b"").splitlines():
        name, _, count = line.partition(b" ")
        if name == b"oom_kill" and count.strip().isdigit():
            return int(count)
    return None
