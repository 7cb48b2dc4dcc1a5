"""What ranks tell by the pages that they share."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.samples.inside import InsideFacts, InsideGone, InsidePulse, InsideResult
from hangtop.diagnosis.job import Inside
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.apply.kit import Applier, Here


def pulse(here: Here, sample: InsidePulse) -> None:
    """Step and phase of a rank."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        if rank.inside is None:
            here.node.roster += 1
        rank.inside = Inside(sample, () if rank.inside is None else rank.inside.results)


def facts(here: Here, sample: InsideFacts) -> None:
    """What it opened."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        rank.opened = sample


def result(here: Here, sample: InsideResult) -> None:
    """What came of a check."""
    rank = here.node.ranks.get(sample.pid)
    if rank is None or rank.inside is None:
        return
    ranks = set(sample.ranks)  # what another group found still holds
    others = tuple(
        known for known in rank.inside.results if known.check != sample.check or not ranks.issuperset(known.ranks)
    )
    if sample not in rank.inside.results:
        here.note(f"{rank_text(rank.process.rank)}, check {sample.check}: {sample.summary[:160]}")
    rank.inside = Inside(rank.inside.pulse, (*others, sample))


def gone(here: Here, sample: InsideGone) -> None:
    """Its page is no longer there."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        rank.inside = rank.opened = None
        here.node.roster += 1


APPLIERS: Mapping[type, Applier] = {
    InsidePulse: pulse,
    InsideFacts: facts,
    InsideResult: result,
    InsideGone: gone,
}
