"""When one rank last made progress, by the counters of its process, its GPU and its node's traffic.

CPU time alone is no progress: a rank that waits in NCCL spins at 100 %, a rank that waits in gloo sleeps. Nor are
wakeups: JAX polls its peers five times a second, a file lock is tried ten times a second, torch's blocking wait polls a
thousand times a second. Polling shows by its cost: next to no CPU per wakeup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.evidence.gpus import load_of
from hangtop.diagnosis.node import Gpu, Rank
from hangtop.diagnosis.series import Timed
from hangtop.diagnosis.waits.process_motion import Motion, between

WINDOW = 2.5
"""Least seconds over which CPU time is compared with wakeups, because /proc counts CPU time in ticks."""
AWAY = 10.0
"""Most seconds between two updates: activity during a longer silence of the node counts as done in this time."""
TICK_S = 0.01
"""Seconds of a tick of CPU time: a rank that used next to nothing may show one of user and one of system time."""
SWITCHES = 2
"""Least voluntary switches of the main thread, per update and second: waits with a timeout wake every few seconds."""
SELDOM, A_SCRIPTS_WAKE, A_WAKE = 25.0, 2e-3, 300e-6
"""Ours: wakeups per second of a polling wait in Python, and CPU seconds per wakeup: more than a check of a file or
flag takes, less than a step of even a tiny model. The last is for waits that wake more often, in C: the loop of a Ray
worker takes 0.1 to 0.2 ms."""
AWAKE = 0.3
"""Cores in use from which a process counts as computing, however often it wakes."""
WRITES_A_WAKE, WRITES = 128.0, 1024.0
"""Bytes written per wakeup, and per second, that a polling wait does not reach: data that gloo sends counts as written,
and so do log lines, which are fewer."""
IO_RATE, IO_BYTES = 64 * 1024.0, 1e6
"""Bytes per second in two updates in a row that are more than heartbeats and log lines; or bytes in a single update."""


class MotionSign(Enum):
    """Signs that a rank makes progress, the strongest first, with their texts."""

    LAUNCHES = "launching collectives"
    EXCHANGES = "exchanging data with other nodes"
    GPU = "computing on their GPUs"
    WORKS = "computing, reading or writing"


@dataclass(slots=True)
class RankProgress:
    """The progress of one rank. Times are on this machine's clock."""

    pulse: RankPulse
    begun_at: float
    """Time of the first update, …"""
    seen_at: float
    """… and of the last."""
    launched: int
    advanced: dict[MotionSign, float] = field(default_factory=dict)
    """When each sign was last seen."""
    updates: int = 0
    """Updates after the first."""
    reads: bool = False
    """It read or wrote more than log lines before the last update."""

    @property
    def moved_at(self) -> float:
        """When the rank last made progress; the first update if it has made none."""
        return max((self.begun_at, *self.advanced.values()))

    def follow(self, at: float, rank: Rank, gpu: Gpu | None, *, exchanged: float | None, ours: bool) -> None:
        """Take the next update of the rank, as of ``at``.

        ``exchanged`` is when its node last had the job's traffic; ``ours``: its activity since the last update may
        answer a question of hangtop, and does not count.
        """
        pulse, before = rank.pulses.newest, Timed(max(self.seen_at, at - AWAY), self.pulse)
        assert pulse is not None
        self.updates += 1
        self.pulse, self.seen_at = pulse, at
        launched, self.launched = rank.launched > self.launched, rank.launched
        if ours:
            return
        moved = between(before, Timed(at, pulse))
        reads = self._reads(moved)
        if launched:
            self.advanced[MotionSign.LAUNCHES] = at
        if gpu is not None and gpu.samples and load_of(gpu, gpu.samples[-1].value) == "computing":
            self.advanced[MotionSign.GPU] = at
        if reads or self._computes(moved, rank, beside_gpu=gpu is not None):
            self.advanced[MotionSign.WORKS] = at
        if exchanged is not None:
            self.advanced[MotionSign.EXCHANGES] = exchanged

    def _computes(self, moved: Motion, rank: Rank, *, beside_gpu: bool) -> bool:
        """Whether the rank computes or sends, rather than polls or sleeps.

        With a GPU only the main thread counts: another thread may spin while it waits for the GPU.
        """
        switches = moved.switches or 0.0
        if switches < SWITCHES * max(1.0, 1.0 / moved.span):
            return False
        if (moved.written or 0.0) >= max(WRITES, WRITES_A_WAKE * switches):
            return True
        lately = moved
        if moved.span < WINDOW:
            lately = between(_value_at(rank, self.seen_at - WINDOW), Timed(self.seen_at, self.pulse))
        wakes, cores = lately.switches or 0.0, (lately.cpu or 0.0) - (lately.threads or 0.0) * beside_gpu
        used = max(0.0, cores - 2 * TICK_S / max(lately.span, WINDOW))
        return used >= min(AWAKE, (A_SCRIPTS_WAKE if wakes <= SELDOM else A_WAKE) * wakes)

    def _reads(self, moved: Motion) -> bool:
        """Whether the rank reads or writes more than heartbeats and log lines."""
        rate, twice = (moved.read or 0.0) + (moved.written or 0.0), self.reads
        self.reads = rate >= IO_RATE
        return self.reads and (twice or rate * moved.span >= IO_BYTES)


def _value_at(rank: Rank, at: float) -> Timed[RankPulse]:
    """The figures of a rank's process as known at a time, or the first: figures that do not move are not sent."""
    pulse = next((one for one in reversed(rank.pulses) if one.at <= at), rank.pulses[0])
    return Timed(max(pulse.at, at), pulse.value)
