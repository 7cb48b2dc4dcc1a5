"""Ranks, the processes that they forked, and what ranks tell by the pages that they share."""

from __future__ import annotations

from collectors.samples.inside import InsideGone, InsidePulse, InsideResult
from collectors.samples.ranks import CpuWait, Helper, HelperGone, IdleLauncher, RankGone, RankProcess, RankPulse
from hangtop.diagnosis.node import Inside, Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.unnumbered import Unnumbered
from hangtop.session.apply.dispatch import SampleContext, applies
from hangtop.session.state import THINGS

ALARMING = {"T": "stopped", "D": "uninterruptible", "Z": "zombie"}
HELPERS = 1024
"""Processes that one rank forked, at most."""
GONE_KEPT = 64
"""Ended processes kept a node: enough for the last runs, bounded under a crash loop."""


@applies(RankProcess)
def process(here: SampleContext, sample: RankProcess) -> None:
    """A rank's process was seen, or a fact about it changed."""
    here.node.unconfirmed -= {sample.pid}
    known = here.node.ranks.get(sample.pid)
    if known is None and len(here.node.ranks) > THINGS["ranks"]:
        return  # of a node that names too many, which is shown limited, no others cost anything
    if sample.rank < 0:
        sample = sample._replace(rank=Unnumbered(here.node.name, sample.pid))
    if known is not None and known.gone_at is None and abs(known.process.started - sample.started) < 2.0:
        if known.process.rank != sample.rank:
            here.note(f"{rank_text(known.process.rank)} is {rank_text(sample.rank)}")
        known.process = sample
        here.node.roster += 1
        return
    ranks = here.node.ranks
    # A reused pid is another process: dropped first, so that it takes its place at the end of the dictionary.
    ranks.pop(sample.pid, None)
    for ended in [pid for pid, rank in ranks.items() if rank.gone_at is not None][:-GONE_KEPT]:
        del ranks[ended]
    ranks[sample.pid] = Rank(here.node.name, sample)
    here.node.roster += 1
    here.note(f"{rank_text(sample.rank)} started" + ("" if sample.rank < 0 else f" (pid {sample.pid})"), "started")


@applies(RankPulse)
def pulse(here: SampleContext, sample: RankPulse) -> None:
    """A rank's process moved."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        newest = rank.looks.newest
        if newest is not None and newest.state != sample.state:
            _note_state(here, rank, newest.state, sample.state)
        rank.looks.take(here.at, sample, here.job.looks_kept)


def _note_state(here: SampleContext, rank: Rank, was: str, now: str) -> None:
    before, after = ALARMING.get(was), ALARMING.get(now)
    if before != after and (before == "stopped" or after is not None) and after != "uninterruptible":
        here.note(f"{rank_text(rank.process.rank)} is {after or 'running again'}", "stopped" if after else "back")


@applies(RankGone)
def gone(here: SampleContext, sample: RankGone) -> None:
    """A rank's process is no longer there, or turned out to be none."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None and rank.gone_at is None and not sample.ended:
        # it was taken for one while it had not started those that are, or the number of its task for a rank's
        del here.node.ranks[sample.pid]
        here.node.roster += 1
    elif rank is not None:
        end_rank(here, rank, min(sample.at, here.at))


def end_rank(here: SampleContext, rank: Rank, at: float) -> None:
    """Mark a rank's process as gone; the first time counts."""
    if rank.gone_at is None:
        rank.gone_at = at
        here.node.roster += 1
        rank.helpers = {}
        number = rank.process.rank
        here.note(f"{rank_text(number)} is gone" + ("" if number < 0 else f" (pid {rank.process.pid})"), "ended")


@applies(Helper)
def helper(here: SampleContext, sample: Helper) -> None:
    """A process that a rank forked."""
    rank = here.node.ranks.get(sample.rank_pid)
    if rank is not None and (sample.pid in rank.helpers or len(rank.helpers) < HELPERS):
        rank.helpers[sample.pid] = sample


@applies(HelperGone)
def helper_gone(here: SampleContext, sample: HelperGone) -> None:
    """Such a process ended."""
    rank = here.node.ranks.get(sample.rank_pid)
    if rank is not None:
        rank.helpers.pop(sample.pid, None)


@applies(CpuWait)
def cpu_wait(here: SampleContext, sample: CpuWait) -> None:
    """How a rank gets its CPU."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        rank.cpu_wait = sample


@applies(IdleLauncher)
def launcher(here: SampleContext, sample: IdleLauncher) -> None:
    """A launcher runs on a node without a rank, or does no longer."""
    idle = here.node.launchers
    idle.pop(sample.pid, None)
    if sample.idle:
        idle[sample.pid] = sample


@applies(InsidePulse)
def page_pulse(here: SampleContext, sample: InsidePulse) -> None:
    """Step and phase of a rank."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        if rank.inside is None:
            here.node.roster += 1
        rank.inside = Inside(sample, () if rank.inside is None else rank.inside.results)


@applies(InsideResult)
def page_result(here: SampleContext, sample: InsideResult) -> None:
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


@applies(InsideGone)
def page_gone(here: SampleContext, sample: InsideGone) -> None:
    """Its page is no longer there."""
    rank = here.node.ranks.get(sample.pid)
    if rank is not None:
        rank.inside = None
        here.node.roster += 1
