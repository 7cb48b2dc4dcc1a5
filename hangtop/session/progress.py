"""Whether the job moves, from signals that cost nothing: no stack is read and nothing is asked of the job.

A rank shows progress when its main thread gives up the CPU (it is handed data, waits for the backward pass, wakes from
a receive), when it reads or writes, when its logs or its count of collectives grow, when its helpers compute, when its
GPU's power or utilisation changes, or when it goes from sleeping to computing or back. CPU time by itself is none: a
rank that waits in NCCL spins at 100 %, while one that waits in gloo sleeps. A signal must stand out from noise *and* be
a fair share of what this rank usually does, so that a wait that polls ten times a second is not taken for work.

In a hang the culprit may be busy, but those who wait are still; in a healthy job every rank moves once a step. So the
job stands still as long as at least half of its ranks have been still. What a healthy job does in its pauses
(evaluation, checkpoint, compilation) is learned as ``usual_pause``. A hang that is older than the session is known by
how long the nodes say that the ranks' threads have slept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import StackDump
from hangtop.session.state import GpuState, JobState, NodeState, RankState

Key = tuple[str, int]
"""Node and pid."""

SWITCHES = 2
"""Voluntary switches of the main thread within a look and a second: a wait with a time-out wakes once in seconds."""
IO_RATE = 64 * 1024.0
"""Bytes per second: heartbeats and log lines stay far below."""
SHARE = 0.1
"""Of what is usual for this rank: less is a pause."""
HALF_LIFE = 600.0
"""Seconds in which a usual rate that is no longer seen is half forgotten."""
ASLEEP, AWAKE = 0.05, 0.3
"""Cores in use under which a process sleeps, and over which it computes or spins; between them it stays what it was."""
HELPERS = 0.3
"""Cores of helpers in use that are work: compilers, data workers."""
POWER = 0.03
"""Share of the power limit by which a GPU's power moves when work comes and goes; a kernel that spins is flat."""
UTILIZATION = 5
"""Per cent."""
PAUSE = 2.0
"""Seconds: shorter pauses are the rhythm of looking, not of the job."""
WITNESSED = 2
"""Looks at a still rank after which the node's word on since when counts: until then another thread may do its work."""
SLICE = 48
"""Nodes that are looked at in one go: some 2 ms."""
MAIN_THREADS = ("MainThread", "")


@dataclass(slots=True)
class Track:
    """What is known of one rank's movement."""

    pulse: RankPulse
    seen_at: float
    moved_at: float
    log_at: float | None
    switches: float = 0.0
    """Usual rate per second, forgotten slowly; the same for ``io``."""
    io: float = 0.0
    awake: bool | None = None
    gpu: tuple[float, float] | None = None
    """Watts and per cent that movement is measured from."""
    frames: int | None = None
    """Hash of the main thread's stack in the last look at it."""
    looks: int = 0
    """Looks since it last moved."""

    @property
    def still_since(self) -> float:
        """Since when it is still: from before it was watched, too, once it was seen to be so for a moment."""
        idle_since = self.pulse.idle_since
        return self.moved_at if idle_since is None or self.looks < WITNESSED else min(self.moved_at, idle_since)


class Progress:
    """Follows the cheap signals of one job; call :meth:`look` about once a second."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._tracks: dict[Key, Track] = {}
        self._still: float | None = None
        self._usual: float | None = None
        self._rebase: set[Key] = set()
        self.alarmed = False
        """Set while a hang is reported: such a pause is not learned as usual."""

    @property
    def stood_still(self) -> float | None:
        """Seconds for which at least half of the ranks in view have been still; None without a rank in view."""
        return self._still

    @property
    def usual_pause(self) -> float | None:
        """The longest pause that the job came back from; None while it has taken none."""
        return self._usual

    def look(self, now: float, strangers: Collection[Key] = ()) -> None:
        """Compare every living rank with the last look; ``strangers`` are processes of other runs."""
        for _ in self.looking(now, strangers):
            pass

    def looking(self, now: float, strangers: Collection[Key] = ()) -> Iterator[None]:
        """The same in slices of :data:`SLICE` nodes, for those who have other things to do meanwhile."""
        stills: list[float] = []
        alive: set[Key] = set()
        for number, node in enumerate(tuple(self._state.nodes.values()), 1):
            if node.ranks:
                self._look_at(node, now, strangers, stills, alive)
            if number % SLICE == 0:
                yield
        for key in self._tracks.keys() - alive:
            del self._tracks[key]
        self._take(stills)

    def _look_at(
        self, node: NodeState, now: float, strangers: Collection[Key], stills: list[float], alive: set[Key]
    ) -> None:
        if node.link not in {"live", "limited"} or node.seen_at is None:
            # Not seen is not still: the last word is kept until the node answers again.
            alive.update((node.name, pid) for pid in node.ranks)
            return
        on = {process.pid: gpu for gpu in node.gpus.values() for process in gpu.processes}
        for pid, rank in node.ranks.items():
            key = (node.name, pid)
            if rank.gone_at is not None or rank.looks.newest is None or key in strangers:
                continue
            alive.add(key)
            gpu = on.get(pid) if node.gpu_processes else node.gpus.get(_place(rank))
            stills.append(now - self._follow(key, node.seen_at, rank, gpu))

    def saw(self, dumps: Iterable[tuple[str, StackDump]]) -> None:
        """Take a look at stacks: a main thread that is elsewhere than before has moved.

        A look that stopped the process for a moment must not count as movement of its own.
        """
        for node, dump in dumps:
            key = (node, dump.pid)
            track = self._tracks.get(key)
            if track is None:
                continue
            if dump.method not in {"nonblocking", "none"}:
                self._rebase.add(key)
            frames = _main_frames(dump)
            if frames is not None:
                if track.frames is not None and frames != track.frames:
                    track.moved_at, track.looks = max(track.moved_at, dump.at), 0
                track.frames = frames

    def _take(self, stills: list[float]) -> None:
        before = self._still
        stills.sort(reverse=True)
        self._still = max(0.0, stills[(len(stills) + 1) // 2 - 1]) if stills else None
        if self.alarmed or before is None or self._still is None:
            return
        if before >= PAUSE and self._still < before - 0.1:
            self._usual = max(self._usual or 0.0, before)

    def _follow(self, key: Key, at: float, rank: RankState, gpu: GpuState | None) -> float:
        """When this rank last moved, by this look at what its node said last, at ``at``."""
        pulse = rank.looks.newest
        assert pulse is not None
        track = self._tracks.get(key)
        if track is None:
            self._tracks[key] = Track(pulse, at, at, rank.log_at, gpu=_light(gpu))
            return at
        if at <= track.seen_at:
            return track.still_since
        if key in self._rebase:
            self._rebase.discard(key)
            track.log_at = rank.log_at
        elif _moved(track, rank, gpu, at - track.seen_at):
            track.moved_at, track.looks = at, 0
        track.pulse, track.seen_at = pulse, at
        track.looks += 1
        return track.still_since


def _moved(track: Track, rank: RankState, gpu: GpuState | None, span: float) -> bool:
    """Compare a rank with its track, and let the track learn. Every signal is learned, so none is skipped."""
    before, pulse = track.pulse, rank.looks.newest
    assert pulse is not None
    fading = 0.5 ** (span / HALF_LIFE)
    switched = pulse.voluntary_switches - before.voluntary_switches
    switches = switched / span
    track.switches = max(switches, track.switches * fading)
    io = (_grown(before.read_bytes, pulse.read_bytes) + _grown(before.written_bytes, pulse.written_bytes)) / span
    track.io = max(io, track.io * fading)
    helped = (pulse.helpers_cpu - before.helpers_cpu) / span >= HELPERS
    logged = rank.log_at != track.log_at
    track.log_at = rank.log_at
    woke = _woke(track, (pulse.cpu_user + pulse.cpu_system - before.cpu_user - before.cpu_system) / span)
    glowed = _glowed(track, _light(gpu))
    return (
        logged
        or helped
        or woke
        or glowed
        or (switched >= SWITCHES * max(1.0, span) and switches >= SHARE * track.switches)
        or io >= max(IO_RATE, SHARE * track.io)
    )


def _woke(track: Track, cores: float) -> bool:
    awake = False if cores < ASLEEP else True if cores > AWAKE else track.awake
    changed = track.awake is not None and awake != track.awake
    track.awake = awake
    return changed


def _glowed(track: Track, now: tuple[float, float] | None) -> bool:
    if now is None:
        return False
    before = track.gpu
    if before is not None and abs(now[0] - before[0]) < POWER and abs(now[1] - before[1]) < UTILIZATION:
        return False
    track.gpu = now
    return before is not None


def _light(gpu: GpuState | None) -> tuple[float, float] | None:
    """Power as a share of its limit, and utilisation, of the GPU that a rank is on."""
    if gpu is None or (sample := gpu.looks.newest) is None:
        return None
    limit = gpu.facts.power_limit if gpu.facts else None
    power = 0.0 if sample.power is None else sample.power / (limit or 700.0)
    return power, float(sample.utilization or 0)


def _place(rank: RankState) -> int:
    """Index of the GPU that is a rank's by its number, where no list of processes tells; -1 for none."""
    local = rank.process.local_rank
    return -1 if local is None else local


def _grown(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else max(0, now - before)


def _main_frames(dump: StackDump) -> int | None:
    for thread in dump.threads:
        if thread.name in MAIN_THREADS and thread.frames and thread.os_thread_id in {None, dump.pid}:
            return hash(tuple((f.name, f.file, f.line) for f in thread.frames if not f.native))
    return None
