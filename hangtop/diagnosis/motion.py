"""How much a rank's process moved while it was watched: its CPU, its switches, what it read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look, Rank
from hangtop.diagnosis.tables.thresholds import (
    BUSY_CORES,
    IDLE_CORES,
    STILL_BYTES_PER_S,
    STILL_SWITCHES_PER_S,
    WORK_BYTES_PER_S,
)


@dataclass(frozen=True, slots=True)
class Motion:
    """Growth per second over the looks at one process; None where fewer than two looks tell."""

    span: float = 0.0
    """Seconds between the oldest and the newest look."""
    cpu: float | None = None
    """Cores in use."""
    helpers_cpu: float | None = None
    """Cores that its forked helpers use."""
    switches: float | None = None
    """Voluntary context switches of the main thread per second."""
    read: float | None = None
    """Bytes per second."""
    written: float | None = None
    """Bytes per second."""
    state: str = ""
    """Letter of the newest look."""
    state_for: float = 0.0
    """Seconds for which every look showed this state."""
    still_for: float = 0.0
    """Seconds for which neither CPU, switches nor bytes moved."""
    wchan: str = ""

    @property
    def busy(self) -> bool:
        """It computes, or polls, most of the time."""
        return self.cpu is not None and self.cpu >= BUSY_CORES

    @property
    def blocked(self) -> bool:
        """It hardly used its CPU."""
        return self.cpu is not None and self.cpu <= IDLE_CORES

    @property
    def moves_data(self) -> bool:
        """It reads or writes in earnest."""
        return max(self.read or 0.0, self.written or 0.0) > WORK_BYTES_PER_S

    @property
    def helped(self) -> bool:
        """Processes that it forked work for it."""
        return (self.helpers_cpu or 0.0) > IDLE_CORES


def motion(rank: Rank | None, since: float | None = None) -> Motion:
    """Sum up the looks at one rank's process; growth is counted over the looks from ``since`` on, where given.

    A look before ``since`` is used when fewer than two came after it.
    """
    looks = tuple(rank.looks) if rank else ()
    if not looks:
        return Motion()
    last = looks[-1]
    first = looks[0] if since is None else next((look for look in looks[:-1] if look.at >= since), looks[-2:][0])
    state = last.value.state
    state_since = last.at
    for look in reversed(looks):
        if look.value.state != state:
            break
        state_since = look.at
    span = last.at - first.at
    if span <= 0:
        return Motion(state=state, wchan=last.value.wchan)
    return Motion(
        span=span,
        cpu=max(0.0, _cpu(last.value) - _cpu(first.value)) / span,
        helpers_cpu=max(0.0, last.value.helpers_cpu - first.value.helpers_cpu) / span,
        switches=max(0, last.value.voluntary_switches - first.value.voluntary_switches) / span,
        read=_rate(first.value.read_bytes, last.value.read_bytes, span),
        written=_rate(first.value.written_bytes, last.value.written_bytes, span),
        state=state,
        state_for=last.at - state_since,
        still_for=_still_for(looks),
        wchan=last.value.wchan,
    )


def stirred(before: Look[RankPulse], after: Look[RankPulse]) -> bool:
    """Tell whether a process did anything worth the name between two looks."""
    span = after.at - before.at
    if span <= 0:
        return False
    old, new = before.value, after.value
    return (
        (_cpu(new) - _cpu(old)) / span > IDLE_CORES
        or (new.voluntary_switches - old.voluntary_switches) / span > STILL_SWITCHES_PER_S
        or (_rate(old.read_bytes, new.read_bytes, span) or 0.0) > STILL_BYTES_PER_S
        or (_rate(old.written_bytes, new.written_bytes, span) or 0.0) > STILL_BYTES_PER_S
        or (new.helpers_cpu - old.helpers_cpu) / span > IDLE_CORES
    )


def _still_for(looks: Sequence[Look[RankPulse]]) -> float:
    since = looks[-1].at
    for before, after in zip(reversed(looks[:-1]), reversed(looks[1:]), strict=True):
        if stirred(before, after):
            break
        since = before.at
    return looks[-1].at - since


def _cpu(pulse: RankPulse) -> float:
    return pulse.cpu_user + pulse.cpu_system


def _rate(before: int | None, after: int | None, span: float) -> float | None:
    return None if before is None or after is None else max(0, after - before) / span
