"""Other jobs on the same nodes: no word is said of them, so it is said that they are there, and how to choose them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.rules.placement import left_over

SOURCE = "another job"
MOST = 4
"""Runs that are told."""
WORDS = 60
"""Characters of a command that are told."""


def other_jobs(job: Job) -> tuple[Unknown, ...]:
    """One for each run beside the job that is judged, the largest first; what an earlier run left behind is none."""
    runs: dict[tuple[str, str], list[Rank]] = defaultdict(list)
    mine = job.ranks[0].process if job.ranks else None
    for other in job.others:
        if mine is not None and not left_over(other, job.others):
            runs[_choice(other.process, mine)].append(other)
    largest = sorted(runs.items(), key=lambda run: (-len(run[1]), run[0]))[:MOST]
    return tuple(
        Unknown(SOURCE, tuple(sorted({one.node for one in ranks})), _told(ranks, choice)) for choice, ranks in largest
    )


def _told(ranks: list[Rank], choice: tuple[str, str]) -> str:
    command = ranks[0].process.command
    short = command if len(command) <= WORDS else f"{command[: WORDS - 1]}…"
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
