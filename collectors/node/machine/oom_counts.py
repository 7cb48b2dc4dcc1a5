"""OOM kills from the counters of cgroups, which every user may read: access to the kernel log is often denied.

``oom_kill`` in ``memory.events`` counts the processes of a group and its descendants that any kind of OOM killer has
killed (Documentation/admin-guide/cgroup-v2.rst). The counter does not identify the process.
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
"""Groups of ranks that are read at most."""


class OomCounts:
    """Keeps the kill counts of the ranks' groups and of their parent groups."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._mount = sys + "/fs/cgroup"
        self._counts: Dict[str, Dict[str, int]] = {}
        """By group of ranks: its own count, then those of its parent groups."""

    def read(self, ranks: Iterable[RankProcess], now: float) -> Iterator[LogEvent]:
        """Events of kills since the last read in the groups of these ranks, or of ranks that have ended.

        Only kills after a group was first seen count. When a group disappears with its ranks, new kills of its lowest
        remaining parent are reported once; later kills there concern other processes.
        """
        for rank in ranks:  # at every read: a batch system may move a running rank into its group
            group = parse_cgroup(read_or_none("%s/%d/cgroup" % (self._proc, rank.pid)) or b"").path
            if group not in self._counts and len(self._counts) < MOST:
                self._counts[group] = self._killed(upward(group))
        grown: Dict[str, int] = {}
        for group, before in list(self._counts.items()):
            counts = self._killed(before)
            lowest = next(iter(counts), None)
            if lowest is not None and counts[lowest] > before[lowest]:
                grown[lowest] = counts[lowest] - before[lowest]
            self._counts[group] = counts
            if lowest != group:
                del self._counts[group]
        for group, kills in grown.items():
            data: Dict[str, Value] = {"cgroup": group or "/", "kills": kills}
            yield LogEvent(KIND, now, None, "", None, self._file(group), 0, "oom_kill has grown by %d" % kills, data)

    def _file(self, group: str) -> str:
        return self._mount + group + "/memory.events"

    def _killed(self, groups: Iterable[str]) -> Dict[str, int]:
        """Kill count of each group that has the counter."""
        files = ((group, _OOM_KILL.search(read_or_none(self._file(group)) or b"")) for group in groups)
        return {group: int(found.group(1)) for group, found in files if found}
