"""What one rank does, from one look to the next: signs that it computes, exchanges, reads or writes, or merely wakes.

CPU time by itself is no sign: a rank that waits in NCCL spins at 100 %, while one that waits in gloo sleeps. Nor is
waking up: JAX looks five times a second whether its peers came, a file lock is tried ten times a second, torch's
blocking wait looks a thousand times. Such a wait is told by its price: each time that it wakes it uses next to no CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import Frame, StackDump
from hangtop.diagnosis.tables.thresholds import A_SCRIPTS_WAKE, A_WAKE, IDLE_CORES, SELDOM, TICK_S
from hangtop.session.state.job_state import GpuState, RankState

SWITCHES = 2
"""Voluntary switches of the main thread within a look and a second: a wait with a time-out wakes once in seconds."""
IO_RATE = 64 * 1024.0
"""Bytes per second: heartbeats and log lines stay far below."""
IO_ONCE = 1e6
"""Bytes in one look that count though the look before had none; less may be somebody who reads figures now and then."""
SHARE = 0.1
"""Of what is usual for this rank: less is a pause."""
HALF_LIFE = 600.0
"""Seconds in which a usual rate that is no longer seen is half forgotten."""
ASLEEP, AWAKE = IDLE_CORES, 0.3
"""Cores in use under which a process sleeps, and over which it computes or spins; between them it stays what it was."""
BETWEEN = 2
"""Looks in a row after which it is not known any more which of the two it does: one may be half of each."""
WRITES_A_WAKE, WRITES = 128.0, 1024.0
"""Bytes written each time that one wakes, and per second, that a wait which polls does not hand over: what gloo sends
is counted as written, and so are the lines of a log, which are fewer."""
SMOOTH = 0.4
"""Part of what a rank did each time that it woke which the looks before tell: the kernel counts CPU time in ticks."""
SMOOTHED_S = 2.5
"""Seconds that are averaged so."""
HELPERS = 0.3
"""Cores of helpers in use that are work: compilers, data workers."""
POWER, UTILIZATION = 0.03, 20
"""Share of the power limit, and per cent of the time in use, by which a GPU moves when work comes and goes; a kernel
that spins is flat."""
HOT, FULL = 0.45, 50
"""Share of its power limit that a GPU draws only when it computes, and per cent of its time that it is in use then."""
DRIFT = 0.1
"""Part of the way by which the level that power is compared with follows it at each look: temperature moves it too."""
SEEN_WITHIN = 9.0
"""Seconds between two looks at stacks of which the second proves that the rank moves now, not some time before."""
LOOP = 3
"""Innermost frames in which two looks at a wait that polls may differ: the loop, what it calls, and what that calls."""
MAIN_THREADS = ("MainThread", "")
PROGRAM = "<module>"
"""What a script's main thread began with."""


@dataclass(slots=True)
class RankProgress:
    """What is known of one rank's movement. Times are on this machine's clock."""

    pulse: RankPulse
    seen_at: float
    moved_at: float
    """When it last did something that is no mere waking."""
    fresh_at: float | None
    launched: int
    launched_at: float | None = None
    """When it launched a collective, ..."""
    gpu_active_at: float | None = None
    """... its GPU computed, ..."""
    worked_at: float | None = None
    """... and it computed, read or wrote, the last time."""
    moves: int = 0
    """Looks in which it had moved."""
    looks: int = 0
    """Looks since it last moved."""
    usual_switches: float = 0.0
    """Usual rate per second, forgotten slowly; the same for ``usual_io``."""
    usual_io: float = 0.0
    busy_io: bool = False
    """It read or wrote in earnest in the last look."""
    rate: float = 0.0
    """Switches per second, averaged over the last looks; ..."""
    cores: float | None = None
    """... and cores in use, likewise."""
    polling: bool = False
    """It wakes only to see whether what it waits for is there, or sleeps."""
    awake: bool | None = None
    between: int = 0
    """Looks in a row in which it neither slept nor used much of a core."""
    power: float | None = None
    """Share of its GPU's power limit, ..."""
    used: float = 0.0
    """... and per cent of its time, that movement is measured from; without a GPU that is known None and 0."""
    frames: Sequence[Frame] | None = None
    """The main thread's stack in the last look at it, the innermost first, ..."""
    looked_at: float = 0.0
    """... and when that was."""

    def follow(self, at: float, rank: RankState, gpu: GpuState | None, *, exchanged: float | None, own: bool) -> None:
        """Take the next look at it, as of ``at``. Every sign is learned from, so none is skipped.

        ``exchanged`` is when its node had the job's traffic, if it is seen to have had it since the last look; ``own``
        says that we stopped the process for a moment meanwhile.
        """
        pulse, before, span = rank.looks.newest, self.pulse, at - self.seen_at
        assert pulse is not None
        self.looks += 1
        self.pulse, self.seen_at = pulse, at
        fresh, self.fresh_at = rank.fresh_at != self.fresh_at, rank.fresh_at
        launched, self.launched = rank.launched > self.launched, rank.launched
        if own:
            return
        fading = 0.5 ** (span / HALF_LIFE)
        cores = max(0.0, pulse.cpu_user + pulse.cpu_system - before.cpu_user - before.cpu_system) / span
        main = _of_main_thread(before, pulse, cores, span)
        worked = self._computes(before, span, fading, cores if gpu is None else main)
        worked |= self._reads(before, span, fading)
        worked |= (pulse.helpers_cpu - before.helpers_cpu) / span >= HELPERS
        worked |= self._changed(cores)
        gpu_active = self._gpu_moves(gpu_figures(gpu))
        if launched:
            self.launched_at = at
        if gpu_active:
            self.gpu_active_at = at
        if worked:
            self.worked_at = at
        by_itself = launched or gpu_active or worked or fresh
        if by_itself or exchanged is not None:
            self.moved_at = at if by_itself else max(self.moved_at, exchanged or at)
            self.moves += 1
            self.looks = 0

    def _computes(self, before: RankPulse, span: float, fading: float, cores: float) -> bool:
        """Whether it hands over and is handed work, rather than polls or sleeps."""
        pulse = self.pulse
        switches = max(0, pulse.voluntary_switches - before.voluntary_switches) / span
        self.usual_switches = max(switches, self.usual_switches * fading)
        wakes = switches >= SWITCHES * max(1.0, 1.0 / span) and switches >= SHARE * self.usual_switches
        if self.cores is None:
            self.rate, self.cores = switches, cores
        self.rate += (1.0 - SMOOTH) * (switches - self.rate)
        self.cores += (1.0 - SMOOTH) * (cores - self.cores)
        written = _grown(before.written_bytes, pulse.written_bytes) / span
        seldom = self.rate <= SELDOM
        usual = max(0.0, self.cores - 2 * TICK_S / max(span, SMOOTHED_S))
        least = min(ASLEEP, A_SCRIPTS_WAKE * max(self.rate, switches)) if seldom else min(AWAKE, A_WAKE * self.rate)
        hands_over = written >= max(WRITES, WRITES_A_WAKE * switches)
        timers = cores < AWAKE and self.frames is not None and looks_after_a_loop(self.frames)
        enough = usual >= least and (not seldom or cores >= least)
        self.polling = not hands_over and (timers or not enough)
        return wakes and not self.polling

    def _reads(self, before: RankPulse, span: float, fading: float) -> bool:
        now = self.pulse
        amount = _grown(before.read_bytes, now.read_bytes) + _grown(before.written_bytes, now.written_bytes)
        io = amount / span
        self.usual_io = max(io, self.usual_io * fading)
        busy = io >= max(IO_RATE, SHARE * self.usual_io)
        earnest = busy and (self.busy_io or amount >= IO_ONCE)
        self.busy_io = busy
        return earnest

    def _changed(self, cores: float) -> bool:
        """Whether it went from sleeping to computing or back. A rank that spins but is given no CPU does not sleep.

        Nor does it begin to compute when it is given more: what it does was not known for as long as that was little.
        """
        asleep = (self.polling and self.rate > SELDOM) or (cores < ASLEEP and self.pulse.state != "R")
        self.between = 0 if asleep or cores > AWAKE else self.between + 1
        awake = not asleep if not self.between else self.awake if self.between < BETWEEN else None
        changed = self.awake is not None and awake is not None and awake != self.awake
        self.awake = awake
        return changed

    def _gpu_moves(self, now: tuple[float, float, bool] | None) -> bool:
        """Whether its GPU draws the power of work, or its power or use changed."""
        if now is None:
            return False
        power, used, known = now
        before_power, before_used, self.power, self.used = self.power, self.used, power, used
        if known and power >= HOT and used >= FULL:
            return True
        if before_power is None:
            return False
        if abs(power - before_power) >= POWER or abs(used - before_used) >= UTILIZATION:
            return True
        self.power = before_power + DRIFT * (power - before_power)
        self.used = before_used + DRIFT * (used - before_used)
        return False

    def saw(self, dump: StackDump) -> None:
        """Take a look at its stacks: a main thread that is elsewhere than before has moved."""
        frames = main_frames(dump)
        if frames is None or (self.frames and frames and self.frames[-1].name == PROGRAM != frames[-1].name):
            return  # not read, or read while it changed: it has lost its outer frames
        before, self.frames = self.frames, frames
        since, self.looked_at = self.looked_at, dump.at
        # A wait that polls is now in its check and now in its sleep.
        near = LOOP if self.polling and self.rate >= 1.0 else 0
        if before is not None and frames_apart(before, frames) > near:
            self.moved_at, self.looks = max(self.moved_at, dump.at), 0
            if dump.at - since <= SEEN_WITHIN:
                self.worked_at = max(self.worked_at or dump.at, dump.at)
            self.moves += 1


def begun(rank: RankState, at: float, gpu: GpuState | None) -> RankProgress:
    """Begin to follow a rank, as of ``at``."""
    pulse, figures = rank.looks.newest, gpu_figures(gpu)
    assert pulse is not None
    power, used = figures[:2] if figures is not None else (None, 0.0)
    return RankProgress(pulse, at, at, rank.fresh_at, rank.launched, power=power, used=used)


def gpu_figures(gpu: GpuState | None) -> tuple[float, float, bool] | None:
    """Power as a share of its limit, utilisation, and whether that limit is known, of the GPU that a rank is on."""
    if gpu is None or (sample := gpu.looks.newest) is None:
        return None
    limit = gpu.facts.power_limit if gpu.facts else None
    power = 0.0 if sample.power is None else sample.power / (limit or 700.0)
    return power, float(sample.utilization or 0), limit is not None


def main_frames(dump: StackDump) -> Sequence[Frame] | None:
    """Frames of its main thread, the innermost first; None where they were not read."""
    for thread in dump.threads:
        if thread.name in MAIN_THREADS and thread.frames and thread.os_thread_id in {None, dump.pid}:
            return thread.frames
    return None


def looks_after_a_loop(frames: Sequence[Frame]) -> bool:
    """Whether a main thread is met between two turns of an event loop, as of a program that trains in another thread.

    Timers, monitors and connections of its own wake such a loop a hundred times a second, whatever the job does.
    """
    selects = bool(frames) and frames[0].file.endswith("selectors.py")
    return selects and any(frame.name.endswith("_run_once") and "asyncio" in frame.file for frame in frames[:3])


def frames_apart(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    """Python frames of the deeper of two stacks that are not the same in both, counted from where they part."""
    a, b = ([(f.name, f.file, f.line) for f in reversed(frames) if not f.native] for frames in (one, other))
    same = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return max(len(a), len(b)) - same


def _grown(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else max(0, now - before)


def _of_main_thread(before: RankPulse, now: RankPulse, cores: float, span: float) -> float:
    """Cores that the main thread alone uses: beside a GPU another thread may spin in a wait for that."""
    if before.main_cpu is None or now.main_cpu is None:
        return cores
    return max(0.0, now.main_cpu - before.main_cpu) / span
