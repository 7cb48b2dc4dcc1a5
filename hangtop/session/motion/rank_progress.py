"""When one rank last made progress, by the counters of its process, its GPU and its node's traffic.

CPU time by itself is no progress: a rank that waits in NCCL spins at 100 %, while one that waits in gloo sleeps. Nor is
waking up: JAX looks five times a second whether its peers came, a file lock is tried ten times a second, torch's
blocking wait looks a thousand times. Such a wait is known by its price: next to no CPU for each time that it wakes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.evidence.gpus import load_of
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Gpu, Rank
from hangtop.diagnosis.waits.process_motion import Motion, between

WINDOW = 2.5
"""Seconds over which CPU time is compared with wakes, at the least, for /proc counts CPU time in ticks."""
AWAY = 10.0
"""Seconds of a look at the most: what a rank did while its node was not heard counts as done in so many."""
TICK_S = 0.01
"""One tick, of user's and of system's time each: a rank that used next to nothing may be seen to use both."""
SWITCHES = 2
"""Voluntary switches of the main thread within a look and a second: a wait with a time-out wakes once in seconds."""
SELDOM, A_SCRIPTS_WAKE, A_WAKE = 25.0, 2e-3, 300e-6
"""Wakes per second at most of a wait in a script, and seconds of CPU that one such wake costs: more than it takes to
look at a file or a flag, less than a step of even a tiny model. And those of a wait that wakes oftener, in C: the loop
of a Ray worker takes 0.1 to 0.2 ms."""
AWAKE = 0.3
"""Cores in use from which on a process computes, however often it wakes."""
WRITES_A_WAKE, WRITES = 128.0, 1024.0
"""Bytes written each time that one wakes, and per second, that a wait which polls does not hand over: what gloo sends
is counted as written, and so are the lines of a log, which are fewer."""
IO_RATE, IO_BYTES = 64 * 1024.0, 1e6
"""Bytes per second that are no heartbeat or log line, in two looks in a row; or bytes in a single one."""


class MotionSign(Enum):
    """What shows that a rank makes progress, the strongest first, in words for people."""

    LAUNCHES = "launching collectives"
    EXCHANGES = "exchanging data with other nodes"
    GPU = "computing on their GPUs"
    WORKS = "computing, reading or writing"


@dataclass(slots=True)
class RankProgress:
    """The progress of one rank. Times are on this machine's clock."""

    pulse: RankPulse
    begun_at: float
    """When it was looked at first, …"""
    seen_at: float
    """… and last."""
    launched: int
    advanced: dict[MotionSign, float] = field(default_factory=dict)
    """When each sign was seen last."""
    looks: int = 0
    """Looks after the first."""
    reads: bool = False
    """It read or wrote more than log lines in the last look."""

    @property
    def moved_at(self) -> float:
        """When it last made progress, or was looked at first."""
        return max((self.begun_at, *self.advanced.values()))

    def follow(self, at: float, rank: Rank, gpu: Gpu | None, *, exchanged: float | None, ours: bool) -> None:
        """Take the next look at it, as of ``at``.

        ``exchanged`` is when its node last had the job's traffic; ``ours`` says that what it did meanwhile may be its
        answer to a question of ours.
        """
        pulse, before = rank.looks.newest, Look(max(self.seen_at, at - AWAY), self.pulse)
        assert pulse is not None
        self.looks += 1
        self.pulse, self.seen_at = pulse, at
        launched, self.launched = rank.launched > self.launched, rank.launched
        if ours:
            return
        moved = between(before, Look(at, pulse))
        reads = self._reads(moved)
        if launched:
            self.advanced[MotionSign.LAUNCHES] = at
        if gpu is not None and gpu.looks and load_of(gpu, gpu.looks[-1]) == "computing":
            self.advanced[MotionSign.GPU] = at
        if reads or self._computes(moved, rank, beside_gpu=gpu is not None):
            self.advanced[MotionSign.WORKS] = at
        if exchanged is not None:
            self.advanced[MotionSign.EXCHANGES] = exchanged

    def _computes(self, moved: Motion, rank: Rank, *, beside_gpu: bool) -> bool:
        """Whether it hands over and is handed work, rather than polls or sleeps.

        Beside a GPU its main thread counts alone: another one may spin in a wait for that.
        """
        switches = moved.switches or 0.0
        if switches < SWITCHES * max(1.0, 1.0 / moved.span):
            return False
        if (moved.written or 0.0) >= max(WRITES, WRITES_A_WAKE * switches):
            return True
        lately = moved
        if moved.span < WINDOW:
            lately = between(_value_at(rank, self.seen_at - WINDOW), Look(self.seen_at, self.pulse))
        wakes, cores = lately.switches or 0.0, (lately.cpu or 0.0) - (lately.threads or 0.0) * beside_gpu
        used = max(0.0, cores - 2 * TICK_S / max(lately.span, WINDOW))
        return used >= min(AWAKE, (A_SCRIPTS_WAKE if wakes <= SELDOM else A_WAKE) * wakes)

    def _reads(self, moved: Motion) -> bool:
        """Whether it reads or writes in earnest."""
        rate, twice = (moved.read or 0.0) + (moved.written or 0.0), self.reads
        self.reads = rate >= IO_RATE
        return self.reads and (twice or rate * moved.span >= IO_BYTES)


def _value_at(rank: Rank, at: float) -> Look[RankPulse]:
    """What was known of its process at a time, or first: what does not move is not sent."""
    look = next((look for look in reversed(rank.looks) if look.at <= at), rank.looks[0])
    return Look(max(look.at, at), look.value)
