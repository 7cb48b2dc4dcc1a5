"""Other jobs on the same nodes: they are not judged, so the verdict says that they are there and what chooses them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from textwrap import shorten

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.finding import Unknown, Verdict
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.rules.placement import left_over

SOURCE = "another job"
MOST = 4
"""Runs that are told."""
COMMAND = 60
"""Characters of a command that are told."""


def other_jobs(job: Job) -> tuple[Unknown, ...]:
    """One for each run beside the job that is judged, the largest first; what an earlier run left behind is none."""
    return tuple(
        Unknown(SOURCE, tuple(sorted({one.node for one in ranks})), _told(ranks, choice))
        for choice, ranks in job.once(_largest)
    )


def beside(job: Job) -> str:
    """The same in a few words, behind those of a verdict that nothing is wrong; empty where there is none."""
    return "; another job there is not judged" if job.once(_largest) else ""


def choices(job: Job) -> tuple[tuple[str, str], ...]:
    """What chooses each of them that can be chosen, the largest first."""
    return tuple(choice for choice, _ in job.once(_largest) if choice[0])


def judged_too(verdict: Verdict, job: Job, first: Verdict, first_job: Job) -> Verdict:
    """The verdict about another job on the nodes, which says how ``first_job`` is, the one that was judged before."""
    if not job.ranks or not first_job.ranks:
        return verdict
    chosen = _choice(first_job.ranks[0].process, job.ranks[0].process)
    left = tuple(one for one in verdict.unknown if one.source != SOURCE or f"--job {'='.join(chosen)} " not in one.why)
    summary = f"{verdict.summary}; the larger or newer job there is {first.outcome}"
    return replace(verdict, summary=summary, unknown=left)


def _largest(job: Job) -> list[tuple[tuple[str, str], list[Rank]]]:
    """Runs by what chooses them."""
    runs: dict[tuple[str, str], list[Rank]] = defaultdict(list)
    for other in job.others if job.ranks else ():
        if not left_over(other, job.others):
            runs[_choice(other.process, job.ranks[0].process)].append(other)
    return sorted(runs.items(), key=lambda run: (-len(run[1]), run[0]))[:MOST]


def _told(ranks: list[Rank], choice: tuple[str, str]) -> str:
    short = shorten(ranks[0].process.command, COMMAND, placeholder="…")
    how = f"--job {choice[0]}={choice[1]} chooses it" if choice[0] else "--job KEY=VALUE chooses one"
    are = "is" if len(ranks) == 1 else "are"
    return f"{count(len(ranks), 'rank')} of another run {are} there and not judged ({short}): {how}"


def _choice(process: RankProcess, mine: RankProcess) -> tuple[str, str]:
    """The variable by which ``--job`` tells a run from ours, and its value; both empty where none does."""
    ours = _names(mine)
    return next(((name, value) for name, value in _names(process).items() if value and value != ours[name]), ("", ""))


def _names(process: RankProcess) -> Mapping[str, str]:
    """What tells runs apart, the surest first."""
    return {
        "SLURM_JOB_ID": process.env.get("SLURM_JOB_ID", ""),
        "TORCHELASTIC_RUN_ID": process.run_id,
        "MASTER_PORT": "" if process.master_port is None else str(process.master_port),
        "WORLD_SIZE": "" if process.world_size is None else str(process.world_size),
    }
