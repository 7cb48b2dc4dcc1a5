"""One process of a job as the source ``ranks`` follows it."""

from __future__ import annotations

from typing import List, Optional

from collectors.node.processes.environ import NO_RANK, RankEnvironment
from collectors.node.processes.procfs import Stat
from collectors.node.ranks.process_metrics import HeldFiles, Zombies
from collectors.node.ranks.process_tree import FamilyMember
from collectors.node.ranks.search import FoundProcess
from collectors.samples.ranks import RankProcess

FIRST_PAUSE, LONGEST_PAUSE = 1.25, 60.0
"""Seconds between looks at a process that says no rank; they double. Its threads come with the first communicator, and
its number may be set at any time before."""
WAITS_FOR_A_CHILD = (b"do_wait", b"kernel_wait4", b"kernel_waitid")
"""Functions of the kernel in which a process waits for the end of one that it started."""


class Tracked:
    """One process with a rank in its environment, or one that says none and has a training library mapped."""

    __slots__ = (
        "bytes_moved", "env", "executable", "facts_at", "held", "library", "numbered_by", "pause", "pid", "process",
        "quiet_looks", "seen", "settle_at", "shared", "shown", "stat", "switches", "takes_part", "words", "zombies",
    )  # fmt: skip

    def __init__(self, found: FoundProcess, stat: Stat, seen: float, held: HeldFiles) -> None:
        self.pid = found.pid
        self.env = found.env
        self.shown = found.shown
        self.numbered_by = found.numbered_by
        self.library = found.library
        self.takes_part = False
        self.shared: Optional[int] = None
        """Number of the task that it shares with the ranks that task started: not its own."""
        self.settle_at = 0.0
        self.pause = FIRST_PAUSE
        self.stat = stat
        self.seen = seen
        self.words: List[str] = []
        self.executable = ""
        self.process: Optional[RankProcess] = None
        """What was told of it; None unless it is a rank."""
        self.facts_at = 0.0
        self.bytes_moved: Optional[int] = None
        """Read and written, of a helper that is no worker; None before it was looked at, and of all others."""
        self.switches = -1
        self.quiet_looks = 0
        """Looks in a row in which its main thread made no voluntary context switch."""
        self.zombies = Zombies()
        self.held = held

    def note_switches(self, voluntary: int) -> None:
        """Count looks without a voluntary context switch of its main thread."""
        self.quiet_looks = self.quiet_looks + 1 if voluntary == self.switches else 0
        self.switches = voluntary

    def member(self, orphan: bool = False) -> FamilyMember:
        """What its place in the family depends on."""
        stat = self.stat
        return FamilyMember(
            self.pid, stat.parent, stat.start_ticks, self.env, self.words, stat.comm, self.executable, orphan,
            self.takes_part,
        )  # fmt: skip

    @property
    def waits_for_a_child(self) -> bool:
        """Whether it sleeps until one that it started ends."""
        return (self.held.read("wchan") or b"").strip() in WAITS_FOR_A_CHILD

    @property
    def settled(self) -> bool:
        """True when it need not be looked at again to know whether, and which, rank it is."""
        return not self.library or (self.takes_part and self.env.rank != NO_RANK)

    def number(self, env: RankEnvironment, numbered_by: str) -> None:
        """Take a number, or what else is known of it now."""
        self.env, self.numbered_by, self.facts_at = env, numbered_by, 0.0

    def wait_to_settle(self, moment: float) -> None:
        """Put off the next look at what it is, each time for longer."""
        self.settle_at, self.pause = moment + self.pause, min(2 * self.pause, LONGEST_PAUSE)

    def take_number_away(self) -> None:
        """Its number is that of a task of the scheduler, which it shares with others."""
        self.shared, self.library = self.env.rank, self.library or "torch"
        self.number(without_number(self.env), "")
        self.settle_at = 0.0


def without_number(env: RankEnvironment) -> RankEnvironment:
    """The same of a process whose number, and that of its whole task, are not those of a rank."""
    return env._replace(rank=NO_RANK, world_size=None, local_rank=None, launcher="")
