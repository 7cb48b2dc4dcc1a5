"""Kills for want of memory as control groups count them, which anybody may read: the kernel's log is often refused.

``oom_kill`` counts the processes of a group that any kind of OOM killer has killed: in ``memory.events`` of cgroup v2
together with those of the groups below, in ``memory.oom_control`` of v1 (Linux 4.13) of the group alone
(Documentation/admin-guide/cgroup-v2.rst, mm/memcontrol.c). Which process it was no counter tells.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set

from collectors.node.files import read_or_none
from collectors.node.processes.cgroup import parse_cgroup, upward
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankProcess
from collectors.samples.values import Value

KIND = "cgroup.oom_kill"
MOST = 64
"""Groups that are looked at: their ranks' own, and those above."""


class _Group(NamedTuple):
    """A control group of ranks."""

    path: str
    """Below the mount of the memory controller; empty for the root, which in a cgroup namespace is a container's."""
    file: str


class OomCounts:
    """Remembers how many kills each group of the ranks had."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._mount = sys + "/fs/cgroup"
        self._ways: Dict[_Group, List[_Group]] = {}
        """By a group of ranks: itself, then those above it."""
        self._counts: Dict[_Group, int] = {}

    def look(self, ranks: Iterable[RankProcess], now: float) -> Iterator[LogEvent]:
        """A kill in a group of these ranks, or of some that have gone, since the last look.

        A group is counted from when it was first seen. A group above one that still counts is not told: what was killed
        there is told by the one below, or is none of the ranks'.
        """
        for rank in ranks:  # each time: a batch system may put one into its group when it runs already
            way = self._groups(rank.pid)
            if way[0] not in self._ways and len(self._counts) < MOST:
                found = {group: self._counts.get(group, _killed(group.file)) for group in way}
                self._counts.update({group: count for group, count in found.items() if count is not None})
                self._ways[way[0]] = [group for group in way if group in self._counts]
        for group, more in self._grown().items():
            text = "oom_kill has grown by %d" % more
            data: Dict[str, Value] = {"cgroup": group.path or "/", "kills": more}
            yield LogEvent(KIND, now, None, "", None, group.file, 0, text, data)

    def _grown(self) -> Dict[_Group, int]:
        """Kills since the last look by group: of each rank's groups the lowest that is there."""
        grown: Dict[_Group, int] = {}
        gone: Set[_Group] = set()
        for group, before in self._counts.items():
            count = _killed(group.file)
            if count is None:
                gone.add(group)
            elif count > before:
                grown[group] = count - before
        for group in gone:
            del self._counts[group]
        self._counts.update({group: self._counts[group] + more for group, more in grown.items()})
        lowest: Set[_Group] = set()
        for way in self._ways.values():
            lowest.update([group for group in way if group in self._counts][:1])
        # what the kernel counts above a group that has gone with its ranks is told once: later ones are of others
        self._ways = {own: way for own, way in self._ways.items() if not gone.intersection(way[:1])}
        wanted = {group for way in self._ways.values() for group in way}
        self._counts = {group: count for group, count in self._counts.items() if group in wanted}
        return {group: more for group, more in grown.items() if group in lowest}

    def _groups(self, pid: int) -> List[_Group]:
        cgroup = parse_cgroup(read_or_none("%s/%d/cgroup" % (self._proc, pid)) or b"")
        mount = self._mount + ("" if cgroup.unified else "/memory")
        name = "/memory.events" if cgroup.unified else "/memory.oom_control"
        return [_Group(path, mount + path + name) for path in upward(cgroup.memory_path)]


def _killed(path: str) -> Optional[int]:
    """The counter ``oom_kill`` of such a file; None where there is none."""
    for line in (read_or_none(path) or b"").splitlines():
        name, _, count = line.partition(b" ")
        if name == b"oom_kill" and count.strip().isdigit():
            return int(count)
    return None
