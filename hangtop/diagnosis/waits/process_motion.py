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
    SELDOM_ASLEEP_PER_S,
    SOME_CORES,
    WORK_BYTES_PER_S,
)
from hangtop.diagnosis.tables.wchan import is_frozen

HALTED = ("T", "t", "D")
"""States in which a process does nothing, whatever its stack says; how long they last is worth knowing."""


POLLING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Settings with which torch polls a collective instead of sleeping in it."""


HELPERS_SPAN = 2.0
"""Seconds over which the CPU of helpers is counted at the least: it is looked at less often than a rank's own."""
HELPERS_LATELY, HELPERS_IN_D = 8.0, 30.0
"""Seconds over which what helpers read and write is counted: each is looked at every few ticks, and who loads itself
before it hangs reads much then. One in state D may be within a call that copies many megabytes, which count as it
ends."""


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
    state_switches: float = 0.0
    """Voluntary switches per second in that time: none, where it did not leave the state between two looks."""
    state_bytes: float = 0.0
    """Bytes per second that it read and wrote in that time."""
    wchan: str = ""
    memory: int = 0
    """Bytes between the least and the most that it held at any look."""
    unrun: float = 0.0
    """Seconds from when its main thread last ran to the newest look, as the kernel says; 0 where that is not known."""

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
    def starved(self) -> bool:
        """Ready to run all along, and given less of a core than it asks: who runs has not slept of its own accord."""
        return self.state == "R" and self.cpu is not None and not is_blocked(self.cpu) and not wakes(self)

    def beside(self, thread: str) -> bool:
        """Not its main thread does its work, and those beside it are given some CPU: who waits uses next to nothing."""
        used = self.cpu if self.threads is None else self.threads
        return thread == "python" and used is not None and used >= SOME_CORES

    def rests(self, thread: str) -> bool:
        """The same, and they are given none, whatever its main thread does meanwhile."""
        return thread == "python" and self.threads is not None and self.threads < SOME_CORES

    @property
    def asleep(self) -> float:
        """Seconds for which it has slept without a break, and nobody worked for it, as the kernel says; else 0."""
        return self.unrun if self.blocked and not self.helped else 0.0

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
    last = first = helped = lately = next(backwards)
    least = most = last.value.rss
    span_of_helpers = HELPERS_IN_D if any(helper.state == "D" for helper in rank.helpers) else HELPERS_LATELY
    for look in backwards:
        helped = look
        if lately.at > last.at - span_of_helpers and look.value.helpers_bytes is not None:
            lately = look
        if since is None or look.at >= since or first is last:
            first = look
            holds = look.value.rss
            if holds < least:
                least = holds
            elif holds > most:
                most = holds
        if since is not None and look.at < min(since, last.at - HELPERS_SPAN):
            break
    state, wchan = state_of(last.value), last.value.wchan
    span = last.at - first.at
    unrun = 0.0 if last.value.idle_since is None else max(0.0, last.at - last.value.idle_since)
    if span <= 0:
        return Motion(state=state, wchan=wchan, unrun=unrun)
    halted = _first_halted(rank, last) if state in HALTED else last
    state_for = last.at - halted.at
    state_switches = max(0, last.value.voluntary_switches - halted.value.voluntary_switches)
    state_bytes = sum(
        _rate(before, after, state_for) or 0.0
        for before, after in (
            (halted.value.read_bytes, last.value.read_bytes),
            (halted.value.written_bytes, last.value.written_bytes),
        )
    )
    return Motion(
        span=span,
        cpu=max(0.0, _cpu(last.value) - _cpu(first.value)) / span,
        threads=_beside_main(first.value, last.value, span),
        helpers_cpu=max(0.0, last.value.helpers_cpu - helped.value.helpers_cpu) / (last.at - helped.at),
        switches=max(0, last.value.voluntary_switches - first.value.voluntary_switches) / span,
        preempted=max(0, last.value.involuntary_switches - first.value.involuntary_switches) / span,
        helpers_bytes=_rate(lately.value.helpers_bytes, last.value.helpers_bytes, last.at - lately.at),
        helper_runs=any(helper.state == "R" for helper in rank.helpers),
        read=_rate(first.value.read_bytes, last.value.read_bytes, span),
        written=_rate(first.value.written_bytes, last.value.written_bytes, span),
        state=state,
        state_for=state_for,
        state_switches=state_switches / state_for if state_for > 0 else 0.0,
        state_bytes=state_bytes,
        wchan=wchan,
        memory=most - least,
        unrun=unrun,
    )


def state_of(pulse: RankPulse) -> str:
    """The kernel's letter; T, stopped, also for a process that is frozen, which the kernel shows as asleep."""
    return "T" if is_frozen(pulse.wchan) else pulse.state


def _first_halted(rank: Rank, last: Look[RankPulse]) -> Look[RankPulse]:
    """The look since which every one has shown the state of the last."""
    first = last
    for look in reversed(rank.looks):
        if state_of(look.value) != state_of(last.value):
            break
        first = look
    return first


def _cpu(pulse: RankPulse) -> float:
    return pulse.cpu_user + pulse.cpu_system


def _beside_main(first: RankPulse, last: RankPulse, span: float) -> float | None:
    if first.main_cpu is None or last.main_cpu is None:
        return None
    return max(0.0, _cpu(last) - _cpu(first) - (last.main_cpu - first.main_cpu)) / span


def _rate(before: int | None, after: int | None, span: float) -> float | None:
    """Growth per second; None where it was told but once, as of what a rank has only now started."""
    return None if before is None or after is None or span <= 0 else max(0, after - before) / span


def wakes(moved: Motion) -> bool:
    """True where its main thread slept and woke more often than a thread does that waits for one thing."""
    return (moved.switches or 0.0) * moved.span > max(1.0, QUIET_SWITCHES_PER_S * moved.span)


def comes_back(moved: Motion) -> bool:
    """True where its main thread spins and sleeps by turns: it waits for Python's lock when a wait for its GPU is over.

    A wait that spins, for a GPU, sleeps at no time; one that looks again after each short sleep does it oftener.
    """
    spins = moved.busy or moved.wants_cpu
    return spins and moved.span >= HELPERS_SPAN and SELDOM_ASLEEP_PER_S <= (moved.switches or 0.0) < POLLS_PER_S


def naps_briefly(switches: float, cores: float) -> bool:
    """True for a wait in C that looks again after every short sleep, by its switches per second and its CPU."""
    return switches >= POLLS_PER_S and cores <= A_POLL * switches


def told_to_poll(process: Rank | None) -> bool:
    """True where the settings make a rank poll while it waits."""
    env = process.process.env if process else {}
    return any(env.get(name, "0") not in ("", "0") for name in POLLING)


def polls(process: Rank | None, moved: Motion) -> bool:
    """True where a rank polls while it waits: by its settings, or as it wakes too often to do anything each time."""
    told = moved.cpu is not None and moved.switches is not None
    return told_to_poll(process) or (told and naps_briefly(moved.switches or 0.0, moved.cpu or 0.0))
