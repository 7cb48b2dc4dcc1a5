"""What one rank does, from one look to the next: signs that it computes, exchanges, reads or writes, or merely wakes.

CPU time by itself is no sign: a rank that waits in NCCL spins at 100 %, while one that waits in gloo sleeps. Nor is
waking up: JAX looks five times a second whether its peers came, a file lock is tried ten times a second, torch's
blocking wait looks a thousand times. Such a wait is told by its price: each time that it wakes it uses next to no CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import Frame, StackDump
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Gpu, Rank
from hangtop.diagnosis.tables.thresholds import IDLE_CORES
from hangtop.diagnosis.waits.process_motion import Motion, between

SWITCHES = 2
"""Voluntary switches of the main thread within a look and a second: a wait with a time-out wakes once in seconds."""
SELDOM, A_SCRIPTS_WAKE = 25.0, 2e-3
"""Wakes per second of a wait in a script at the most, and seconds of CPU for each time that one wakes: more than a look
at a file or a flag takes, less than a step of even a tiny model."""
A_WAKE = 300e-6
"""The same of a wait that looks oftener: it does so in C. The loop of a Ray worker takes 0.1 to 0.2 ms."""
TICK_S = 0.01
"""What /proc tells CPU time in, user's and system's each: a rank that used next to nothing may be seen to use both."""
IO_RATE, IO_ONCE = 64 * 1024.0, 1e6
"""Bytes per second that are no heartbeat or log line, in two looks in a row; or bytes in a single one."""
ASLEEP, AWAKE = IDLE_CORES, 0.3
"""Cores in use under which a process sleeps, and over which it computes or spins; between them it stays what it was."""
BETWEEN = 2
"""Looks in a row after which it is not known any more which of the two it does: one may be half of each."""
WRITES_A_WAKE, WRITES = 128.0, 1024.0
"""Bytes written each time that one wakes, and per second, that a wait which polls does not hand over: what gloo sends
is counted as written, and so are the lines of a log, which are fewer."""
SMOOTH, SMOOTHED_S = 0.4, 2.5
"""Part of the rate of wakes and of the cores in use that the looks before tell, as CPU time is counted in ticks, and
seconds that are averaged so."""
HELPERS = 0.3
"""Cores of helpers in use that are work: compilers, data workers."""
POWER, UTILIZATION = 0.03, 20
"""Share of the power limit, and per cent of the time in use, by which a GPU moves from look to look when work comes and
goes; a kernel that spins is flat."""
HOT, FULL = 0.45, 50
"""Share of its power limit that a GPU draws only when it computes, and per cent of its time that it is in use then."""
SEEN_WITHIN = 9.0
"""Seconds between two looks at stacks of which the second proves that the rank moves now, not some time before."""
MAIN_THREADS = ("MainThread", "")
PROGRAM = "<module>"
"""What a script's main thread began with."""


class MotionSign(Enum):
    """What proves that a rank moves, the strongest first."""

    LAUNCHES = auto()
    """It launched a collective."""
    EXCHANGES = auto()
    """Its node exchanges what such a job exchanges."""
    GPU = auto()
    """Its GPU draws the power of work, or its power or use changed."""
    WORKS = auto()
    """It computes, reads or writes."""


@dataclass(slots=True)
class RankProgress:
    """What is known of one rank's movement. Times are on this machine's clock."""

    pulse: RankPulse
    seen_at: float
    moved_at: float
    """When it last did something that is no mere waking."""
    fresh_at: float | None
    launched: int
    seen: dict[MotionSign, float] = field(default_factory=dict)
    """When each sign was seen last."""
    moves: int = 0
    """Looks in which it had moved."""
    looks: int = 0
    """Looks since it last moved."""
    reads: bool = False
    """It read or wrote more than log lines in the last look."""
    rate: float | None = None
    """Switches per second, averaged over the last looks; ..."""
    cores: float = 0.0
    """... and cores in use, likewise."""
    polling: bool = False
    """It wakes only to see whether what it waits for is there, or sleeps."""
    awake: bool | None = None
    between: int = 0
    """Looks in a row in which it neither slept nor used much of a core."""
    gpu: tuple[float, float] | None = None
    """Share of its GPU's power limit, and per cent of its time in use, in the last look; None without a GPU."""
    frames: Sequence[Frame] | None = None
    """The main thread's stack in the last look at it, the innermost first, ..."""
    looked_at: float = 0.0
    """... and when that was."""

    def follow(self, at: float, rank: Rank, gpu: Gpu | None, *, exchanged: float | None, own: bool) -> None:
        """Take the next look at it, as of ``at``. Every sign is learned from, so none is skipped.

        ``exchanged`` is when its node had the job's traffic, if it is seen to have had it since the last look; ``own``
        says that we stopped the process for a moment meanwhile.
        """
        pulse, before = rank.looks.newest, Look(self.seen_at, self.pulse)
        assert pulse is not None
        self.looks += 1
        self.pulse, self.seen_at = pulse, at
        fresh, self.fresh_at = rank.fresh_at != self.fresh_at, rank.fresh_at
        launched, self.launched = rank.launched > self.launched, rank.launched
        if own:
            return
        moved = between(before, Look(at, pulse))
        works = [
            self._computes(moved, beside_gpu=gpu is not None),
            self._reads(moved),
            (moved.helpers_cpu or 0.0) >= HELPERS,
            self._changed(moved),
        ]
        signs = {
            MotionSign.LAUNCHES: launched,
            MotionSign.GPU: self._gpu_moves(gpu_figures(gpu)),
            MotionSign.WORKS: any(works),
        }
        self.seen.update((sign, at) for sign, shown in signs.items() if shown)
        if exchanged is not None:
            self.seen[MotionSign.EXCHANGES] = exchanged
        by_itself = fresh or any(signs.values())
        if by_itself or exchanged is not None:
            self.moved_at = at if by_itself else max(self.moved_at, exchanged or at)
            self.moves += 1
            self.looks = 0

    def _computes(self, moved: Motion, *, beside_gpu: bool) -> bool:
        """Whether it hands over and is handed work, rather than polls or sleeps.

        Beside a GPU its main thread counts alone: another one may spin in a wait for that.
        """
        switches, cores = moved.switches or 0.0, (moved.cpu or 0.0) - (moved.threads or 0.0) * beside_gpu
        if self.rate is None:
            self.rate, self.cores = switches, cores
        self.rate += (1.0 - SMOOTH) * (switches - self.rate)
        self.cores += (1.0 - SMOOTH) * (cores - self.cores)
        usual = max(0.0, self.cores - 2 * TICK_S / max(moved.span, SMOOTHED_S))
        if self.rate <= SELDOM:
            cheap = min(usual, cores) < min(ASLEEP, A_SCRIPTS_WAKE * max(self.rate, switches))
        else:
            cheap = usual < min(AWAKE, A_WAKE * self.rate)
        self.polling = cheap and (moved.written or 0.0) < max(WRITES, WRITES_A_WAKE * switches)
        return switches >= SWITCHES * max(1.0, 1.0 / moved.span) and not self.polling

    def _reads(self, moved: Motion) -> bool:
        """Whether it reads or writes in earnest."""
        rate, twice = (moved.read or 0.0) + (moved.written or 0.0), self.reads
        self.reads = rate >= IO_RATE
        return self.reads and (twice or rate * moved.span >= IO_ONCE)

    def _changed(self, moved: Motion) -> bool:
        """Whether it went from sleeping to computing or back. A rank that spins but is given no CPU does not sleep.

        Nor does it begin to compute when it is given more: what it does was not known for as long as that was little.
        """
        cores = moved.cpu or 0.0
        asleep = (self.polling and (self.rate or 0.0) > SELDOM) or (cores < ASLEEP and moved.state != "R")
        self.between = 0 if asleep or cores > AWAKE else self.between + 1
        awake = not asleep if not self.between else self.awake if self.between < BETWEEN else None
        changed = None not in (self.awake, awake) and awake != self.awake
        self.awake = awake
        return changed

    def _gpu_moves(self, now: tuple[float, float] | None) -> bool:
        """Whether its GPU draws the power of work, or its power or use changed."""
        before, self.gpu = self.gpu, now
        if now is None:
            return False
        changed = before is not None and (abs(now[0] - before[0]) >= POWER or abs(now[1] - before[1]) >= UTILIZATION)
        return changed or (now[0] >= HOT and now[1] >= FULL)

    def saw(self, dump: StackDump) -> None:
        """Take a look at its stacks: a main thread that is elsewhere than before has moved.

        Unless it was seen to move since the look before: it may have come there then.
        """
        frames = main_frames(dump)
        if frames is None or (self.frames and frames and self.frames[-1].name == PROGRAM != frames[-1].name):
            return  # not read, or read while it changed: it has lost its outer frames
        before, self.frames = self.frames, frames
        since, self.looked_at = self.looked_at, dump.at
        # a wait that polls is now in its check and now in its sleep
        polls = self.polling and (self.rate or 0.0) >= 1.0
        if before is not None and since >= self.moved_at and not polls and _apart(before, frames):
            self.moved_at, self.looks = max(self.moved_at, dump.at), 0
            if dump.at - since <= SEEN_WITHIN:
                self.seen[MotionSign.WORKS] = max(self.seen.get(MotionSign.WORKS, dump.at), dump.at)
            self.moves += 1


def begun(rank: Rank, at: float, gpu: Gpu | None) -> RankProgress:
    """Begin to follow a rank, as of ``at``."""
    pulse = rank.looks.newest
    assert pulse is not None
    return RankProgress(pulse, at, at, rank.fresh_at, rank.launched, gpu=gpu_figures(gpu))


def gpu_figures(gpu: Gpu | None) -> tuple[float, float] | None:
    """Power as a share of its limit, 0 where that is not known, and utilisation, of the GPU that a rank is on."""
    if gpu is None or (sample := gpu.looks.newest) is None:
        return None
    limit = gpu.facts.power_limit if gpu.facts else None
    return (sample.power or 0.0) / limit if limit else 0.0, float(sample.utilization or 0)


def main_frames(dump: StackDump) -> Sequence[Frame] | None:
    """Frames of its main thread, the innermost first; None where they were not read."""
    for thread in dump.threads:
        if thread.name in MAIN_THREADS and thread.frames and thread.os_thread_id in {None, dump.pid}:
            return thread.frames
    return None


def _apart(one: Sequence[Frame], other: Sequence[Frame]) -> bool:
    """Whether two stacks differ in their Python frames."""
    a, b = ([(frame.name, frame.file, frame.line) for frame in frames if not frame.native] for frames in (one, other))
    return a != b
