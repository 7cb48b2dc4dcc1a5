"""What the ranks in view show together: for how long half of them have been still, and what proves that they move."""

from __future__ import annotations

from dataclasses import dataclass, field

from hangtop.diagnosis.phrasing import count
from hangtop.session.motion.rank_progress import RankProgress
from hangtop.session.motion.traffic import Traffic

LATELY = 5.0
"""Seconds for which a sign shows that a rank moves, ..."""
LOOKS = 2.5
"""... or so many looks of its node, where they are rarer."""
LONGEST = 30.0
"""Seconds between two looks that are counted as such: beyond them is a node that was away."""
LOOKED_OFTEN = 2
"""Looks at a still rank after which it is known to be still."""


@dataclass(slots=True)
class ProgressSummary:
    """How many ranks showed what lately; filled while they are gone through, for there may be thousands."""

    now: float
    between: float = 1.0
    """Seconds between two looks of a node, as in the last round."""
    stills: list[float] = field(default_factory=list)
    """Seconds for which each rank in view has been still."""
    never_moved: int = 0
    """How many never moved, and were looked at often enough to say so."""
    launching: int = 0
    exchanging: int = 0
    computing: int = 0
    """Ranks whose GPU computes; ..."""
    power: float = 0.0
    """... sum of the shares of their power limits that those draw."""
    working: int = 0
    spans: list[float] = field(default_factory=list)
    """Seconds since the look before, of the ranks that were looked at anew."""
    rates: dict[str, float] = field(default_factory=dict)
    """What traffic goes over → bytes per second each way, of all nodes whose traffic shows something."""

    @property
    def since(self) -> float:
        """From when on a sign is one of now."""
        return self.now - max(LATELY, LOOKS * self.between)

    @property
    def span(self) -> float:
        """Seconds between two looks of a node in this round; those of the last one where there was none."""
        return sum(min(LONGEST, span) for span in self.spans) / len(self.spans) if self.spans else self.between

    def node(self, traffic: Traffic, ranks: int) -> None:
        """Count what a node with so many ranks exchanges."""
        if ranks and traffic.at is not None and traffic.at >= self.since:
            self.exchanging += ranks
            self.rates[traffic.way] = self.rates.get(traffic.way, 0.0) + traffic.rate

    def rank(self, known: RankProgress, still: float) -> None:
        """Count what a rank shows, which has been still for so many seconds."""
        since = self.since
        self.stills.append(still)
        self.never_moved += not known.moves and known.looks >= LOOKED_OFTEN
        self.launching += known.launched_at is not None and known.launched_at >= since
        self.working += known.worked_at is not None and known.worked_at >= since
        if known.gpu_active_at is not None and known.gpu_active_at >= since:
            self.computing += 1
            self.power += known.power or 0.0

    def stood_still(self) -> float | None:
        """Seconds for which at least half of the ranks have been still; None without a rank."""
        half = (len(self.stills) + 1) // 2
        return max(0.0, sorted(self.stills)[-half]) if self.stills else None

    def half_never_moved(self) -> bool:
        """Whether at least half of the ranks never moved."""
        return self.never_moved >= (len(self.stills) + 1) // 2

    def proof(self) -> str:
        """What at least half of the ranks show, and more than one of several; empty when that is too little."""
        ranks = len(self.stills)
        needed = max(1, min(2, ranks), (ranks + 1) // 2)
        if self.launching >= needed:
            return f"{count(self.launching, 'rank')} launching collectives"
        if self.exchanging >= needed:
            way = max(self.rates, key=lambda way: self.rates[way])
            return f"{count(self.exchanging, 'rank')}, {_rate(self.rates[way])} over {way}"
        if self.computing >= needed:
            share = self.power / self.computing
            return f"{count(self.computing, 'rank')} computing, GPUs at {share:.0%} of their power"
        return f"{count(self.working, 'rank')} computing, reading or writing" if self.working >= needed else ""


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"
