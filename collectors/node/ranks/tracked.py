"""One process of a job as the source ``ranks`` follows it."""

from __future__ import annotations

from typing import List, Optional, Set

from collectors.node.processes.procfs import Stat
from collectors.node.ranks.process_metrics import HeldFiles
from collectors.node.ranks.process_tree import FamilyMember
from collectors.node.ranks.search import FoundProcess, takes_part
from collectors.samples.ranks import RankProcess

FIRST_PAUSE, LONGEST_PAUSE = 1.25, 60.0
"""Seconds between looks at the threads of a process without a rank; they double. Its threads come with the first
communicator."""


class Tracked:
    """One process with a rank in its environment, or one without that has a training library mapped."""

    def __init__(self, found: FoundProcess, stat: Stat, seen: float, proc: str) -> None:
        self.pid = found.pid
        self.env = found.env
        self.shown = found.shown
        self.library = found.library
        self.takes_part = False
        self.stat = stat
        self.seen = seen
        self.words: List[str] = []
        self.executable = ""
        self.process: Optional[RankProcess] = None
        """What was told of it; None unless it is a rank."""
        self.facts_at = 0.0
        self.bytes_moved: Optional[int] = None
        """Read and written, of a helper that is no data worker; None before it was looked at, and of all others."""
        self.quiet_looks = 0
        """Looks in a row in which its main thread made no voluntary context switch."""
        self.zombies: Set[int] = set()
        """Children of its that have ended, and were told of."""
        self.zombies_at = 0.0
        self.held = HeldFiles(proc, found.pid)
        self._switches = -1
        self._threads_at, self._pause = 0.0, FIRST_PAUSE

    def note_switches(self, voluntary: int) -> None:
        """Count looks without a voluntary context switch of its main thread."""
        self.quiet_looks = self.quiet_looks + 1 if voluntary == self._switches else 0
        self._switches = voluntary

    def begins_to_take_part(self, proc: str, moment: float) -> bool:
        """Whether a process without a rank is seen for the first time to run threads of a process group."""
        if self.takes_part or not self.library or moment < self._threads_at:
            return False
        self._threads_at, self._pause = moment + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self.takes_part = takes_part(proc, self.pid)
        return self.takes_part

    def member(self, orphan: bool = False) -> FamilyMember:
        """What its role depends on."""
        stat = self.stat
        return FamilyMember(
            self.pid, stat.parent, stat.start_ticks, self.env, self.words, stat.comm, self.executable, orphan,
            self.takes_part,
        )  # fmt: skip
