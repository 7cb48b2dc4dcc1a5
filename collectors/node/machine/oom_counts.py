"""Kills for want of memory as control groups count them, which anybody may read: the kernel's log is often refused.

``oom_kill`` in ``memory.events`` counts the processes of a group and of those below it that any kind of OOM killer has
killed (Documentation/admin-guide/cgroup-v2.rst). Which process it was no counter tells.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_cgroup, upward
from collectors.samples import Value
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankProcess

KIND = "cgroup.oom_kill"
_OOM_KILL = re.compile(rb"^oom_kill (\d{1,18})$", re.MULTILINE)
MOST = 64
"""Groups of ranks that are looked at."""


class OomCounts:
    """Remembers how many kills each group of the ranks, and those above it, had."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._mount = sys + "/fs/cgroup"
        self._counts: Dict[str, Dict[str, int]] = {}
        """By a group of ranks: its own count, then those of the groups above it."""

    def look(self, ranks: Iterable[RankProcess], now: float) -> Iterator[LogEvent]:
        """A kill in a group of these ranks, or of some that have gone, since the last look.

        A group is counted from when it was first seen. Where it has gone with its ranks, what the lowest group above it
        counts is told once: later kills are of others.
        """
        for rank in ranks:  # each time: a batch system may put one into its group when it runs already
            own = parse_cgroup(read_or_none("%s/%d/cgroup" % (self._proc, rank.pid)) or b"").path
            if own not in self._counts and len(self._counts) < MOST:
                self._counts[own] = self._killed(upward(own))
        grown: Dict[str, int] = {}
        for own, before in list(self._counts.items()):
            counts = self._killed(before)
            lowest = next(iter(counts), None)
            if lowest is not None and counts[lowest] > before[lowest]:
                grown[lowest] = counts[lowest] - before[lowest]
            self._counts[own] = counts
            if lowest != own:
                del self._counts[own]
        for group, kills in grown.items():
            data: Dict[str, Value] = {"cgroup": group or "/", "kills": kills}
            yield LogEvent(KIND, now, None, "", None, self._file(group), 0, "oom_kill has grown by %d" % kills, data)

    def _file(self, group: str) -> str:
        return self._mount + group + "/memory.events"

    def _killed(self, groups: Iterable[str]) -> Dict[str, int]:
        """The counter of each group that has one."""
        told = ((group, _OOM_KILL.search(read_or_none(self._file(group)) or b"")) for group in groups)
        return {group: int(found.group(1)) for group, found in told if found}
