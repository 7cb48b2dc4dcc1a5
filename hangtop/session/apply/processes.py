"""Ranks, the processes that they forked, and the pages by which ranks report steps and checks (hangtop.inside)."""

from __future__ import annotations

from sys import intern
from typing import Any

from collectors.samples.ranks import Helper, InsidePulse, InsideResult, ProcessGone, RankProcess, RankPulse
from hangtop.diagnosis.node import Inside, Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.unnumbered import Unnumbered
from hangtop.session.state import SampleContext

HELPERS = 1024
"""Forked processes that are kept for one rank."""
GONE_KEPT = 64
"""Ended processes that are kept per node: enough for the last runs, bounded under a crash loop."""


def rank(here: SampleContext, sample: RankProcess) -> None:
    """A rank's process was seen, or a fact about it changed."""
    here.node.unconfirmed -= {sample.pid}
    ranks = here.node.ranks
    known = ranks.get(sample.pid)
    sample = RankProcess(*map(_with_known_texts, sample))
    if sample.rank < 0:
        sample = sample._replace(rank=Unnumbered(here.node.name, sample.pid))
    here.node.roster += 1
    if known is not None and known.gone_at is None and abs(known.process.started - sample.started) < 2.0:
        if known.process.rank != sample.rank:
            here.note(f"{rank_text(known.process.rank)} is {rank_text(sample.rank)}")
        known.process = sample
        return
    # A reused pid is another process: drop the old one first, so that the new one is at the end of the dictionary.
    ranks.pop(sample.pid, None)
    for ended in [pid for pid, rank in ranks.items() if rank.gone_at is not None][:-GONE_KEPT]:
        del ranks[ended]
    ranks[sample.pid] = Rank(here.node.name, sample)
    here.note(f"{rank_text(sample.rank)} started", "started")


def _with_known_texts(value: Any) -> Any:
    """The same value with interned texts: thousands of ranks have the same command and environment."""
    if isinstance(value, dict):
        return {intern(name): intern(text) for name, text in value.items()}
    return intern(value) if isinstance(value, str) else value


def pulse(here: SampleContext, sample: RankPulse) -> None:
    """New figures of a rank's process."""
    if (rank := here.rank(sample.pid)) is not None:
        newest = rank.pulses.newest
        was, now = "" if newest is None else newest.state, sample.state
        if was and "T" in (was, now) and was != now:
            is_now = "stopped" if now == "T" else "running again"
            here.note(f"{rank_text(rank.process.rank)} is {is_now}", "stopped" if now == "T" else "back")
        rank.pulses.take(here.at, sample, here.job.samples_kept)


def gone(here: SampleContext, sample: ProcessGone) -> None:
    """A rank, a helper or a launcher has ended, or turned out to be none."""
    here.node.launchers.pop(sample.pid, None)
    for other in here.node.ranks.values():
        other.helpers.pop(sample.pid, None)
    rank = here.rank(sample.pid)
    if rank is not None and rank.gone_at is None and not sample.ended:
        # a launcher that had not started its ranks yet, or whose task number was taken for a rank's, looked like a rank
        del here.node.ranks[sample.pid]
        here.node.roster += 1
    elif rank is not None:
        end_rank(here, rank, min(sample.at, here.at))


def end_rank(here: SampleContext, rank: Rank, at: float) -> None:
    """Mark a rank's process as gone, unless it already is."""
    if rank.gone_at is None:
        rank.gone_at, rank.helpers = at, {}
        here.node.roster += 1
        here.note(f"{rank_text(rank.process.rank)} is gone", "ended")


def helper(here: SampleContext, sample: Helper) -> None:
    """A process that a rank forked."""
    rank = here.rank(sample.rank_pid)
    if rank is not None and (sample.pid in rank.helpers or len(rank.helpers) < HELPERS):
        rank.helpers[sample.pid] = sample


def page_pulse(here: SampleContext, sample: InsidePulse) -> None:
    """Step and phase that a rank reports."""
    if (rank := here.rank(sample.pid)) is not None:
        here.node.roster += rank.inside is None
        rank.inside = Inside(sample, () if rank.inside is None else rank.inside.results)


def page_result(here: SampleContext, sample: InsideResult) -> None:
    """The result of a check; replaces earlier results of the check whose ranks are all among its own."""
    rank = here.rank(sample.pid)
    if rank is None or rank.inside is None:
        return
    before, ranks = rank.inside.results, set(sample.ranks)
    if sample not in before:
        here.note(f"{rank_text(rank.process.rank)}, check {sample.check}: {sample.summary[:160]}")
    others = tuple(known for known in before if known.check != sample.check or not ranks.issuperset(known.ranks))
    rank.inside = rank.inside._replace(results=(*others, sample))
