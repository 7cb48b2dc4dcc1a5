"""Motion of a rank's process while it was watched: CPU, context switches, bytes read and written."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.series import Timed
from hangtop.diagnosis.tables.thresholds import BUSY_CORES, IDLE_CORES
from hangtop.diagnosis.tables.wchan import is_frozen

POLLS_PER_S, A_POLL = 300.0, 50e-6
"""Wakes per second, and most CPU seconds for each, of a wait in C that polls with short sleeps: NCCL's init wakes
14,000 times a second and torch's blocking wait 900 times, for 5 to 12 microseconds each. No work is that short."""
PREEMPTED_PER_S = 3.0
"""Ours: a thread that sleeps, or polls a flag ten times a second, is preempted once in many seconds at most."""
STILL_SWITCHES_PER_S = 3.0
"""Ours: Python's queues poll every 5 s and a store every second; a training loop switches far more often."""
QUIET_SWITCHES_PER_S = 0.05
"""Ours: the main thread of a rank that waits in gloo does not switch for minutes; moving, once a collective."""
WORK_BYTES_PER_S = 65536.0
"""Ours: log lines and retries stay far below; a checkpoint or a data set comes in megabytes."""
HALTED = ("T", "t", "D")
"""State letters of a process that does nothing, whatever its stack shows."""


class Motion(NamedTuple):
    """Growth per second over the samples of one process; None if fewer than two samples have the figure."""

    span: float = 0.0
    """Seconds between the oldest and the newest sample."""
    cpu: float | None = None
    """Cores in use by all its threads."""
    threads: float | None = None
    """Cores in use by its threads other than the main thread."""
    helpers_cpu: float | None = None
    """Cores in use by processes that it forked."""
    helpers_bytes: float | None = None
    """Bytes per second that processes that it forked read and wrote."""
    switches: float | None = None
    """Voluntary context switches of the main thread per second."""
    preempted: float = 0.0
    """Involuntary context switches per second."""
    read: float | None = None
    written: float | None = None
    """Bytes per second."""
    state: str = ""
    """State letter in the newest sample; T also for a frozen process."""
    halted_for: float = 0.0
    """Seconds for which all samples showed this state, if it is in :data:`HALTED` and the process did nothing."""
    wchan: str = ""

    @property
    def busy(self) -> bool:
        """Whether it computes or polls at least half of the time."""
        return self.cpu is not None and self.cpu >= BUSY_CORES

    @property
    def blocked(self) -> bool:
        """Whether it hardly used a CPU and did not want one: a runnable process without a CPU is starved."""
        return self.cpu is not None and self.cpu <= IDLE_CORES and self.state != "R" and not self.wants_cpu

    @property
    def wants_cpu(self) -> bool:
        """Whether the kernel often takes it off its CPU; a sleeping process has no involuntary switches."""
        return self.preempted >= PREEMPTED_PER_S

    @property
    def moves_data(self) -> bool:
        """Whether it reads or writes more than log lines and retries do."""
        return max(self.read or 0.0, self.written or 0.0) > WORK_BYTES_PER_S

    @property
    def helped(self) -> bool:
        """Whether processes that it forked use CPU."""
        return (self.helpers_cpu or 0.0) > IDLE_CORES

    @property
    def wakes(self) -> bool:
        """Whether its main thread woke more often than in a single wait, and did more at each wake than poll."""
        switches = self.switches or 0.0
        polls = switches >= POLLS_PER_S and (self.cpu or 0.0) <= A_POLL * switches
        return not polls and switches * self.span > max(1.0, QUIET_SWITCHES_PER_S * self.span)


NO_MOTION = Motion()


def motion(rank: Rank, since: float) -> Motion:
    """Rates of one rank's process over the samples from ``since`` on, over the last two samples if fewer came since.

    Without its writes while these may be a dump that hangtop asked for.
    """
    late = [sample for sample in rank.pulses if sample.at >= since]
    moved = between(late[0] if len(late) > 1 else rank.pulses[-2:][0], rank.pulses[-1])
    moved = moved._replace(written=None) if rank.pulses[-1].at <= rank.answers_until else moved
    halted = bool(moved.span) and moved.state in HALTED
    return moved._replace(halted_for=_halted_for(rank, moved.state)) if halted else moved


def between(first: Timed[RankPulse], last: Timed[RankPulse]) -> Motion:
    """Rates between one sample and a later one."""
    state, wchan = state_of(last.value), last.value.wchan
    if last.at <= first.at:
        return Motion(state=state, wchan=wchan)
    before, after, span = first.value, last.value, last.at - first.at
    cpu = (max(0.0, after.cpu_user - before.cpu_user) + max(0.0, after.cpu_system - before.cpu_system)) / span
    main = _rate(before.main_cpu, after.main_cpu, span)
    return Motion(
        span=span,
        cpu=cpu,
        threads=None if main is None else max(0.0, cpu - main),
        helpers_cpu=_rate(before.helpers_cpu, after.helpers_cpu, span),
        helpers_bytes=_rate(before.helpers_bytes, after.helpers_bytes, span),
        switches=_rate(before.voluntary_switches, after.voluntary_switches, span),
        preempted=_rate(before.involuntary_switches, after.involuntary_switches, span) or 0.0,
        read=_rate(before.read_bytes, after.read_bytes, span),
        written=_rate(before.written_bytes, after.written_bytes, span),
        state=state,
        wchan=wchan,
    )


def state_of(pulse: RankPulse) -> str:
    """State letter of a process; also T (stopped) for a frozen process, which the kernel shows in state S or D."""
    return "T" if is_frozen(pulse.wchan) else pulse.state


def _rate(before: float | None, after: float | None, span: float) -> float | None:
    """Growth per second; None if either sample lacks the figure."""
    return None if before is None or after is None else max(0.0, after - before) / span


def _halted_for(rank: Rank, state: str) -> float:
    """Seconds for which every sample has shown this state; 0 if the process did something between the samples.

    Example: a process seen in state D in every sample reads from a slow disk → 0.
    """
    alike = [*takewhile(lambda sample: state_of(sample.value) == state, reversed(rank.pulses))]
    moved = between(alike[-1], alike[0])
    acts = (moved.switches or 0.0) > STILL_SWITCHES_PER_S or (state == "D" and moved.moves_data)
    return 0.0 if acts else alike[0].at - alike[-1].at
