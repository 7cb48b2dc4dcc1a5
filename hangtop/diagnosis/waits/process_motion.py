"""How much a rank's process moved while it was watched: its CPU, its switches, what it read and wrote."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.tables.thresholds import (
    A_POLL,
    BUSY_CORES,
    IDLE_CORES,
    POLLS_PER_S,
    PREEMPTED_PER_S,
    QUIET_SWITCHES_PER_S,
    STILL_SWITCHES_PER_S,
    WORK_BYTES_PER_S,
)
from hangtop.diagnosis.tables.wchan import is_frozen

HALTED = ("T", "t", "D")
"""States in which a process does nothing, whatever its stack says; how long they last is worth knowing."""


class Motion(NamedTuple):
    """Growth per second over the looks at one process; None where fewer than two looks tell."""

    span: float = 0.0
    """Seconds between the oldest and the newest look."""
    cpu: float | None = None
    """Cores in use, …"""
    threads: float | None = None
    """… by its threads beside the main one, where the kernel tells them apart, …"""
    helpers_cpu: float | None = None
    """… and by processes that it forked."""
    helpers_bytes: float | None = None
    """Bytes per second that those read and wrote lately."""
    switches: float | None = None
    """Voluntary context switches of the main thread per second."""
    preempted: float = 0.0
    """Times a second that it was taken off a CPU on which it would have gone on."""
    read: float | None = None
    written: float | None = None
    """Bytes per second."""
    state: str = ""
    """Letter of the newest look."""
    halted_for: float = 0.0
    """Seconds for which every look showed this state, where it is one of :data:`HALTED`, and it did nothing."""
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
        """Processes that it forked work for it."""
        return (self.helpers_cpu or 0.0) > IDLE_CORES

    @property
    def wakes(self) -> bool:
        """Its main thread slept and woke more often than one that waits for one thing, and did something each time."""
        switches = self.switches or 0.0
        polls = switches >= POLLS_PER_S and (self.cpu or 0.0) <= A_POLL * switches
        return not polls and switches * self.span > max(1.0, QUIET_SWITCHES_PER_S * self.span)


NO_MOTION = Motion()


def motion(rank: Rank, since: float) -> Motion:
    """Sum up the looks at one rank's process from ``since`` on, and one before where fewer than two came after it."""
    late = [look for look in rank.looks if look.at >= since]
    moved = between(late[0] if len(late) > 1 else rank.looks[-2:][0], rank.looks[-1])
    halted = bool(moved.span) and moved.state in HALTED
    return moved._replace(halted_for=_halted_for(rank, moved.state)) if halted else moved


def between(first: Look[RankPulse], last: Look[RankPulse]) -> Motion:
    """What moved from one look to a later one."""
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
    """The kernel's letter; T, stopped, also for a process that is frozen, which the kernel shows as asleep."""
    return "T" if is_frozen(pulse.wchan) else pulse.state


def _rate(before: float | None, after: float | None, span: float) -> float | None:
    """Growth per second; None where it was told but once, as of what a rank has only now started."""
    return None if before is None or after is None else max(0.0, after - before) / span


def _halted_for(rank: Rank, state: str) -> float:
    """Seconds for which every look has shown this state, and the process did not leave it between them.

    One in state D may read, from a slow disk.
    """
    alike = [*takewhile(lambda look: state_of(look.value) == state, reversed(rank.looks))]
    moved = between(alike[-1], alike[0])
    acts = (moved.switches or 0.0) > STILL_SWITCHES_PER_S or (state == "D" and moved.moves_data)
    return 0.0 if acts else alike[0].at - alike[-1].at
