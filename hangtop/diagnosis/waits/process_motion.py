"""How much a rank's process moved while it was watched: its CPU, its switches, what it read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.samples.ranks import Helper, RankPulse
from hangtop.diagnosis.job import Look, Rank
from hangtop.diagnosis.tables.thresholds import (
    A_POLL,
    BUSY_CORES,
    IDLE_CORES,
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
    written: float | None = None
    """Bytes per second."""
    state: str = ""
    """Letter of the newest look."""
    state_for: float = 0.0
    """Seconds for which every look showed this state, where it is one of :data:`HALTED`; in that time, ..."""
    state_switches: float = 0.0
    """... voluntary switches per second: none, where it did not leave the state between two looks, ..."""
    state_bytes: float = 0.0
    """... and bytes per second that it read and wrote."""
    wchan: str = ""

    @property
    def busy(self) -> bool:
        """It computes, or polls, most of the time."""
        return self.cpu is not None and self.cpu >= BUSY_CORES

    @property
    def blocked(self) -> bool:
        """It hardly used its CPU, and did not ask for it: one that is ready to run and gets none is starved."""
        return self.cpu is not None and self.cpu <= IDLE_CORES and self.state != "R" and not self.wants_cpu

    @property
    def wants_cpu(self) -> bool:
        """It is taken off its CPU again and again, which befalls no sleeping process."""
        return self.preempted >= PREEMPTED_PER_S

    @property
    def moves_data(self) -> bool:
        """It reads or writes in earnest."""
        return max(self.read or 0.0, self.written or 0.0) > WORK_BYTES_PER_S

    @property
    def helped(self) -> bool:
        """Processes that it forked work for it, be it with the little that an overloaded node gives them."""
        return (self.helpers_cpu or 0.0) > IDLE_CORES or self.helper_runs

    @property
    def wakes(self) -> bool:
        """Its main thread slept and woke more often than a thread does that waits for one thing."""
        return (self.switches or 0.0) * self.span > max(1.0, QUIET_SWITCHES_PER_S * self.span)


NO_MOTION = Motion()


def motion(rank: Rank | None, since: float | None = None) -> Motion:
    """Sum up the looks at one rank's process; growth is counted over the looks from ``since`` on, where given.

    A look before ``since`` is used when fewer than two came after it.
    """
    if rank is None or not rank.looks:
        return NO_MOTION
    backwards = reversed(rank.looks)
    last = first = helped = next(backwards)
    for look in backwards:
        if helped.at > last.at - HELPERS_SPAN and look.value.helpers_bytes is not None:
            helped = look
        if since is not None and look.at < since and first is not last:
            break
        first = look
    state, wchan = state_of(last.value), last.value.wchan
    if last.at <= first.at:
        return Motion(state=state, wchan=wchan)
    halted = _halted_since(rank.looks) if state in HALTED else last

    def rate(field: str, since: Look[RankPulse] = first) -> float | None:
        """Growth per second; None where it was told but once, as of what a rank has only now started."""
        before, after = getattr(since.value, field), getattr(last.value, field)
        if before is None or after is None or last.at <= since.at:
            return None
        return max(0, after - before) / (last.at - since.at)  # type: ignore[no-any-return]

    cpu = (rate("cpu_user") or 0.0) + (rate("cpu_system") or 0.0)
    main = rate("main_cpu")
    return Motion(
        span=last.at - first.at,
        cpu=cpu,
        threads=None if main is None else max(0.0, cpu - main),
        helpers_cpu=rate("helpers_cpu", first if helped is last else helped),
        helpers_bytes=rate("helpers_bytes", helped),
        helper_runs=_runs(rank.helpers),
        switches=rate("voluntary_switches"),
        preempted=rate("involuntary_switches") or 0.0,
        read=rate("read_bytes"),
        written=rate("written_bytes"),
        state=state,
        state_for=last.at - halted.at,
        state_switches=rate("voluntary_switches", halted) or 0.0,
        state_bytes=(rate("read_bytes", halted) or 0.0) + (rate("written_bytes", halted) or 0.0),
        wchan=wchan,
    )


def state_of(pulse: RankPulse) -> str:
    """The kernel's letter; T, stopped, also for a process that is frozen, which the kernel shows as asleep."""
    return "T" if is_frozen(pulse.wchan) else pulse.state


def _runs(helpers: Sequence[Helper]) -> bool:
    return any(helper.state == "R" for helper in helpers)


def _halted_since(looks: Sequence[Look[RankPulse]]) -> Look[RankPulse]:
    """The look since which every one has shown the state of the last."""
    first = looks[-1]
    for look in reversed(looks):
        if state_of(look.value) != state_of(first.value):
            break
        first = look
    return first


def polls(process: Rank | None, moved: Motion) -> bool:
    """Whether a rank polls while it waits: by its settings, or as it wakes too often to do anything each time."""
    env = process.process.env if process else {}
    told = any(env.get(name, "0") not in ("", "0") for name in POLLING)
    switches = moved.switches or 0.0
    return told or (moved.cpu is not None and switches >= POLLS_PER_S and moved.cpu <= A_POLL * switches)
