"""Proof that a job moves, for people: the strongest sign first, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from hangtop.diagnosis.job import JobMotion
from hangtop.session.motion.steps import JobSteps
from hangtop.session.motion.tracks import MotionTrack
from hangtop.session.motion.traffic import Traffic

LATELY = 5.0
"""Seconds for which a sign shows that a rank moves, …"""
LOOKS = 2.5
"""… or so many looks of its node, where they are rarer."""
LONGEST = 30.0
"""Seconds between two looks that are counted as such: beyond them is a node that was away."""


@dataclass(slots=True)
class Tally:
    """How many ranks showed what lately; filled while they are gone through, for there may be thousands."""

    now: float
    between: float = 1.0
    """Seconds between two looks of a node, as in the last round."""
    ranks: int = 0
    launching: int = 0
    exchanging: int = 0
    computing: int = 0
    """Ranks whose GPU computes; …"""
    power: float = 0.0
    """… sum of the shares of their power limits that those draw."""
    working: int = 0
    spans: float = 0.0
    """Sum of the seconds since the look before of those ranks that were …"""
    looked: int = 0
    """… looked at anew."""
    rates: dict[str, float] = field(default_factory=dict)
    """What traffic goes over → bytes per second each way, of all nodes whose traffic shows something."""

    @property
    def since(self) -> float:
        """From when on a sign is one of now."""
        return self.now - max(LATELY, LOOKS * self.between)

    @property
    def span(self) -> float:
        """Seconds between two looks of a node in this round; those of the last one where there was none."""
        return self.spans / self.looked if self.looked else self.between

    def anew(self, span: float) -> None:
        """A rank was looked at, so many seconds after the look before."""
        self.spans += min(LONGEST, span)
        self.looked += 1

    def node(self, traffic: Traffic, ranks: int) -> None:
        """Count what a node with so many ranks exchanges."""
        if ranks and traffic.at is not None and traffic.at >= self.since:
            self.exchanging += ranks
            self.rates[traffic.way] = self.rates.get(traffic.way, 0.0) + traffic.rate

    def rank(self, known: MotionTrack) -> None:
        """Count what a rank shows. What a silent node said last grows old like all else."""
        since = self.since
        self.ranks += 1
        if known.launched_at is not None and known.launched_at >= since:
            self.launching += 1
        if known.worked_at is not None and known.worked_at >= since:
            self.working += 1
        if known.gpu_active_at is not None and known.gpu_active_at >= since:
            self.computing += 1
            self.power += known.power or 0.0

    def proof(self) -> str:
        """What at least half of the ranks show, and more than one of several; empty when that is too little."""
        needed = max(1, min(2, self.ranks), (self.ranks + 1) // 2)
        if self.launching >= needed:
            return f"{_ranks(self.launching)} launching collectives"
        if self.exchanging >= needed:
            way = max(self.rates, key=lambda way: self.rates[way])
            return f"{_ranks(self.exchanging)}, {_rate(self.rates[way])} over {way}"
        if self.computing >= needed:
            return f"{_ranks(self.computing)} computing, GPUs at {self.power / self.computing:.0%} of their power"
        return f"{_ranks(self.working)} computing, reading or writing" if self.working >= needed else ""


def motion_of(tally: Tally, steps: JobSteps, still: float | None, rhythm: float) -> JobMotion:
    """What moves. ``rhythm`` is how many seconds this job may show nothing between two of its steps."""
    proof = ""
    moving: bool | None = None
    if steps.going_on() and (still is None or still <= steps.fresh):
        moving, proof = True, steps.proof()
    if not proof:
        proof = tally.proof()
        moving = True if proof else moving
    if moving is None and still is not None and still > rhythm:
        moving = False
    return JobMotion(moving, proof, steps.last, steps.told_at, steps.seconds)


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number:,} ranks"


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"
