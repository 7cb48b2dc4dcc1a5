"""How much a rank's process moved while it was watched: its CPU, its switches, what it read and wrote."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.busy import is_blocked, is_busy
from hangtop.diagnosis.job import Look, Rank
from hangtop.diagnosis.tables.thresholds import (
    A_POLL,
    POLLS_PER_S,
    PREEMPTED_PER_S,
    QUIET_SWITCHES_PER_S,
    WORK_BYTES_PER_S,
)
from hangtop.diagnosis.tables.wchan import is_frozen

HALTED = ("T", "t", "D")
"""States in which a process does nothing, whatever its stack says; how long they last is worth knowing."""
POLLING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Settings with which torch polls a collective instead of sleeping in it."""
HELPERS_SPAN = 8.0
"""Seconds over which helpers count: each is looked at every few ticks, and what they did before a hang is no sign."""


@dataclass(frozen=True, slots=True)
class Motion:
    """Growth per second over the looks at one process; None where fewer than two looks tell."""

    span: float = 0.0
    """Seconds between the oldest and the newest look."""
    cpu: float | None = None
    """Cores in use."""
    threads: float | None = None
    """Cores that its threads beside the main one use; None where the kernel does not tell them apart."""
    helpers_cpu: float | None = None
    """Cores that its forked helpers use."""
    helpers_bytes: float | None = None
    """Bytes per second that they read and wrote lately."""
    helper_runs: bool = False
    """One of them was ready to run when it was looked at last."""
    switches: float | None = None
    """Voluntary context switches of the main thread per second."""
    preempted: float = 0.0
    """Times a second that it was taken off a CPU on which it would have gone on."""
    read: float | None = None
    """Bytes per second."""
    written: float | None = None
    """Bytes per second."""
    state: str = ""
    """Letter of the newest look."""
    state_for: float = 0.0
    """Seconds for which every look showed this state, where it is one of :data:`HALTED`."""
    state_looks: int = 0
    """How many looks showed it without a break."""
    state_switches: float = 0.0
    """Voluntary switches per second in that time: none, where it did not leave the state between two looks."""
    state_bytes: float = 0.0
    """Bytes per second that it read and wrote in that time."""
    wchan: str = ""

    @property
    def busy(self) -> bool:
        """It computes, or polls, most of the time."""
        return self.cpu is not None and is_busy(self.cpu)

    @property
    def blocked(self) -> bool:
        """It hardly used its CPU, and did not ask for it: one that is ready to run and gets none is starved."""
        return self.cpu is not None and is_blocked(self.cpu) and self.state != "R" and not self.wants_cpu

    @property
    def wants_cpu(self) -> bool:
        """It is taken off its CPU again and again, which befalls nobody who sleeps, however little CPU it is given."""
        return self.preempted >= PREEMPTED_PER_S

    @property
    def moves_data(self) -> bool:
        """It reads or writes in earnest."""
        return max(self.read or 0.0, self.written or 0.0) > WORK_BYTES_PER_S

    @property
    def helped(self) -> bool:
        """Processes that it forked work for it, be it with the little that an overloaded node gives them."""
        used = self.helpers_cpu or 0.0
        return not is_blocked(used) or (used > 0.0 and self.helper_runs)


class Moves:
    """The motion of one rank's process, summed up when somebody asks: looks of the past are kept packed."""

    __slots__ = ("_known", "_rank", "_since")

    def __init__(self, rank: Rank | None = None, since: float | None = None) -> None:
        """Take what :func:`motion` takes."""
        self._rank = rank
        self._since = since
        self._known: Motion | None = None

    @property
    def motion(self) -> Motion:
        """The sum."""
        if self._known is None:
            self._known = motion(self._rank, self._since)
        return self._known


def motion(rank: Rank | None, since: float | None = None) -> Motion:
    """Sum up the looks at one rank's process; growth is counted over the looks from ``since`` on, where given.

    A look before ``since`` is used when fewer than two came after it.
    """
    if rank is None or not rank.looks:
        return Motion()
    backwards = reversed(rank.looks)
    last = first = helped = next(backwards)
    for look in backwards:
        if helped.at > last.at - HELPERS_SPAN and look.value.helpers_bytes is not None:
            helped = look
        if since is not None and look.at < since and first is not last:
            break
        first = look
    state, wchan = state_of(last.value), last.value.wchan
    span = last.at - first.at
    if span <= 0:
        return Motion(state=state, wchan=wchan)
    halted, looks = _halted_since(rank, last) if state in HALTED else (last, 0)
    state_for = last.at - halted.at

    def rate(field: str, since: Look[RankPulse] = first) -> float | None:
        """Growth per second; None where it was told but once, as of what a rank has only now started."""
        before, after = getattr(since.value, field), getattr(last.value, field)
        return (
            None
            if before is None or after is None or last.at <= since.at
            else max(0, after - before) / (last.at - since.at)
        )

    return Motion(
        span=span,
        cpu=max(0.0, _cpu(last.value) - _cpu(first.value)) / span,
        threads=_beside_main(first.value, last.value, span),
        helpers_cpu=rate("helpers_cpu", first if helped is last else helped),
        helpers_bytes=rate("helpers_bytes", helped),
        helper_runs=any(helper.state == "R" for helper in rank.helpers),
        switches=rate("voluntary_switches"),
        preempted=rate("involuntary_switches") or 0.0,
        read=rate("read_bytes"),
        written=rate("written_bytes"),
        state=state,
        state_for=state_for,
        state_looks=looks,
        state_switches=rate("voluntary_switches", halted) or 0.0,
        state_bytes=(rate("read_bytes", halted) or 0.0) + (rate("written_bytes", halted) or 0.0),
        wchan=wchan,
    )


def state_of(pulse: RankPulse) -> str:
    """The kernel's letter; T, stopped, also for a process that is frozen, which the kernel shows as asleep."""
    return "T" if is_frozen(pulse.wchan) else pulse.state


def _halted_since(rank: Rank, last: Look[RankPulse]) -> tuple[Look[RankPulse], int]:
    """The look since which every one has shown the state of the last, and how many these are."""
    first, looks = last, 0
    for look in reversed(rank.looks):
        if state_of(look.value) != state_of(last.value):
            break
        first, looks = look, looks + 1
    return first, looks


def _cpu(pulse: RankPulse) -> float:
    return pulse.cpu_user + pulse.cpu_system


def _beside_main(first: RankPulse, last: RankPulse, span: float) -> float | None:
    if first.main_cpu is None or last.main_cpu is None:
        return None
    return max(0.0, _cpu(last) - _cpu(first) - (last.main_cpu - first.main_cpu)) / span


def wakes(moved: Motion) -> bool:
    """True where its main thread slept and woke more often than a thread does that waits for one thing."""
    return (moved.switches or 0.0) * moved.span > max(1.0, QUIET_SWITCHES_PER_S * moved.span)


def naps_briefly(switches: float, cores: float) -> bool:
    """True for a wait in C that looks again after every short sleep, by its switches per second and its CPU."""
    return switches >= POLLS_PER_S and cores <= A_POLL * switches


def polls(process: Rank | None, moved: Motion) -> bool:
    """True where a rank polls while it waits: by its settings, or as it wakes too often to do anything each time."""
    env = process.process.env if process else {}
    told = any(env.get(name, "0") not in ("", "0") for name in POLLING)
    return told or (moved.cpu is not None and naps_briefly(moved.switches or 0.0, moved.cpu))
