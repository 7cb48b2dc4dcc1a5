"""Ranks that work, sleep, spin or poll, a second at a time, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from collectors.fleet.sink import LinkChange
from collectors.samples.ranks import RankPulse
from collectors.samples.stream import Tick
from hangtop.session.intake import Intake
from hangtop.session.motion.progress import ProgressClock
from hangtop.session.options import SessionOptions
from tests.support.made import hello, process, pulse, tick

Behaviour = Callable[[RankPulse], RankPulse]


def works(p: RankPulse) -> RankPulse:
    """A step a second: data is handed over, gradients are exchanged."""
    return p._replace(
        cpu_user=p.cpu_user + 0.6, voluntary_switches=p.voluntary_switches + 40, written_bytes=_more(p, 5_000_000)
    )


def sleeps(p: RankPulse) -> RankPulse:
    """Waits in gloo, in a lock, in a read."""
    return p


def spins(p: RankPulse) -> RankPulse:
    """Waits in NCCL, or loops for ever."""
    return p._replace(cpu_user=p.cpu_user + 1.0, involuntary_switches=p.involuntary_switches + 80)


def polls(p: RankPulse) -> RankPulse:
    """Wakes twice a second to look."""
    return p._replace(cpu_user=p.cpu_user + 0.002, voluntary_switches=p.voluntary_switches + 2)


def polls_often(p: RankPulse) -> RankPulse:
    """Looks a hundred times a second, in a loop of C++ that shares its CPU with others."""
    odd = p.voluntary_switches % 2
    return p._replace(cpu_user=p.cpu_user + 0.012 + 0.008 * odd, voluntary_switches=p.voluntary_switches + 97 + 2 * odd)


def wakes(p: RankPulse) -> RankPulse:
    """Waits with a time-out of a second."""
    return p._replace(voluntary_switches=p.voluntary_switches + 1)


def loops_with_sleeps(p: RankPulse) -> RankPulse:
    """A busy retry loop: never still, never any further."""
    return p._replace(cpu_user=p.cpu_user + 0.2, voluntary_switches=p.voluntary_switches + 100)


def _more(p: RankPulse, by: int) -> int:
    return (p.written_bytes or 0) + by


@dataclass
class Job:
    """Ranks on one node, a second at a time."""

    ranks: int = 4
    now: float = 1000.0
    interval: int = 1
    """Seconds between two ticks of the node."""
    intake: Intake = field(init=False)
    progress: ProgressClock = field(init=False)

    def __post_init__(self) -> None:
        self.intake = Intake(SessionOptions(interval=self.interval), lambda: self.now)
        self.progress = self.intake.progress
        self.pulses = {rank: pulse(1000 + rank) for rank in range(self.ranks)}
        self.intake.link(LinkChange("node1", "live", "", self.now))
        self.intake.samples("node1", [hello(self.now), *(process(rank) for rank in range(self.ranks))])

    def ticked(self) -> Tick:
        """The end of a look of the node."""
        return tick(self.now)

    def run(self, seconds: int, behaviour: Behaviour, every: int = 1, **others: Behaviour) -> float | None:
        """All ranks behave so, those in ``others`` (``r2=…``) differently; returns how long the job stood still.

        It is looked at ``every`` so many seconds.
        """
        for second in range(1, seconds + 1):
            self.now += 1.0
            for rank, before in self.pulses.items():
                self.pulses[rank] = others.get(f"r{rank}", behaviour)(before)
            if self.now % self.interval == 0:
                self.intake.samples("node1", [*self.pulses.values(), tick(self.now)])
            if second % every == 0:
                list(self.progress.updating(self.now))
        return self.progress.stood_still
