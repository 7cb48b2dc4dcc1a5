"""Which processes are the ranks of one job, and which belong to something else.

Processes with a rank number belong together by their run: run id, MASTER_PORT, world size, Slurm job. Processes
without a number belong together by user, folder, command and MASTER_PORT.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from collectors.samples.ranks import RankProcess

RunKey: TypeAlias = tuple[str, int | None, int | None, str]

TOGETHER_S = 30.0
"""Ours: seconds within which the nodes of one job start their ranks."""
SEEN_LATE_S = 2.0
"""Seconds by which it may be seen late that a process has ended."""
_NUMBER = re.compile(r"\d+")


def run_key(process: RankProcess) -> RunKey:
    """What the processes of one run have in common; not MASTER_ADDR, which each node may write its own way."""
    return process.run_id, process.master_port, process.world_size, process.env.get("SLURM_JOB_ID", "")


class RankOfJob(Protocol):
    """A process of a rank: moving (:class:`~hangtop.session.state.job_state.RankState`) or frozen
    (:class:`~hangtop.diagnosis.job.Rank`)."""  # noqa: D205, D209

    @property
    def process(self) -> RankProcess:
        """What does not move in it."""

    @property
    def gone_at(self) -> float | None:
        """When it ended."""


P = TypeVar("P", bound=RankOfJob)


class JobSelection(NamedTuple, Generic[P]):
    """All processes: those of the job, and the others."""

    ranks: tuple[P, ...]
    """Of the job, by rank, each rank by its newest process; those without a number stand first."""
    others: tuple[P, ...]
    """Living ones that claim a rank in another run."""
    bystanders: tuple[P, ...]
    """Living ones without a number that belong to something else."""
    ended: tuple[P, ...] = ()
    """Ranks of other runs that are gone."""


def select_job(processes: Iterable[P]) -> JobSelection[P]:
    """The ranks of one job, and the living processes that belong to something else.

    There are two jobs (or an earlier run's orphans) when two living processes claim one rank, or belong to different
    runs of different programs or times; then the run with the most living ranks is the job, the newest one when they
    are even. Ranks of one start that look for different masters are one job, and a fault of it. Processes without a
    number belong to it when they run the same, and are a job themselves where nobody has a number.
    """
    every = list(processes)
    processes = [p for p in every if p.process.rank >= 0]
    without = [p for p in every if p.process.rank < 0] if len(processes) < len(every) else []
    living = [p.process for p in processes if p.gone_at is None]
    one = len(living) == len({p.rank for p in living}) and not _strange(living)
    gone = [p for p in processes if p.gone_at is not None]
    mine = _but_another_run(processes, gone, living) if one else _largest_run(processes)
    best: dict[int, P] = {}
    for p in mine:
        known = best.get(p.process.rank)
        if known is None or _age(p) > _age(known):
            best[p.process.rank] = p
    joined = _joined(without, list(best.values()), alone=not living)
    over = max((p.gone_at or 0.0 for p in processes), default=0.0)
    if not living and any(p.gone_at is None and p.process.started >= over for p in joined):
        best = {}  # another job came after the one whose ranks had numbers
    elif not living and processes:
        joined = ()  # a notebook beside a job that has ended
    best.update((p.process.rank, p) for p in joined)
    kept = {id(p) for p in best.values()}
    runs = {run_key(p.process) for p in best.values()} if gone else set()
    return JobSelection(
        tuple(best[rank] for rank in sorted(best)),
        tuple(p for p in processes if p.gone_at is None and id(p) not in kept),
        tuple(p for p in without if p.gone_at is None and id(p) not in kept),
        tuple(p for p in gone if runs and run_key(p.process) not in runs),
    )


def _but_another_run(processes: list[P], gone: Sequence[P], living: Sequence[RankProcess]) -> list[P]:
    """All processes but those of an ended run that had the number of a living rank.

    A rank that looked for another master and has ended stays: no other process has its number.
    """
    if not gone:
        return processes  # as nearly always, of thousands
    numbers = {p.rank for p in living}
    over = {run_key(p.process) for p in gone if p.process.rank in numbers} - {run_key(p) for p in living}
    over |= earlier_runs(gone, living)
    return [p for p in processes if p.gone_at is None or run_key(p.process) not in over]


def earlier_runs(gone: Sequence[RankOfJob], living: Sequence[RankProcess]) -> set[RunKey]:
    """Runs whose processes had all ended when the living run began or, with none alive, when the last run began.

    A restart by the run's own launcher keeps the run id and is no run of its own: there, a rank that does not come
    again is missing.
    """
    living = living or _last_run(gone)
    begun = min((p.started for p in living), default=float("-inf"))
    keys = {run_key(p) for p in living}
    ids = {key[0] for key in keys}
    last: dict[RunKey, float] = {}
    for p in gone:
        key = run_key(p.process)
        if key not in keys and (key[0] not in ids or not key[0]):
            last[key] = max(last.get(key, 0.0), p.gone_at or float("inf"))
    return {key for key, at in last.items() if at <= begun + SEEN_LATE_S}


def _last_run(gone: Iterable[RankOfJob]) -> list[RankProcess]:
    """Processes of the run that began last."""
    every = [p.process for p in gone]
    newest = max(every, key=lambda p: p.started, default=None)
    return [] if newest is None else [p for p in every if run_key(p) == run_key(newest)]


def _strange(processes: Sequence[RankProcess]) -> bool:
    """Whether ranks are of different runs that run different programs, or that did not start together."""
    begun: dict[RunKey, float] = {}
    for p in processes:
        key = run_key(p)
        begun[key] = min(p.started, begun.get(key, p.started))
    if len(begun) < 2:
        return False
    return len({_runs(p) for p in processes}) > 1 or max(begun.values()) - min(begun.values()) > TOGETHER_S


def _joined(without: Sequence[P], ranks: Sequence[P], *, alone: bool) -> Sequence[P]:
    """Processes without a number that are of the job: those that run what its ranks run, else the largest group."""
    if not without:
        return ()
    if not alone:
        programs = {_runs(p.process) for p in ranks}
        masters = {_master(p.process) for p in ranks} - {None}
        found = [p for p in without if _master(p.process) in masters or _may_meet(p.process, programs, masters)]
    else:
        found = max(
            _groups(without), key=lambda group: (sum(p.gone_at is None for p in group), max(_age(p) for p in group))
        )
    # Each run has pids of its own, so those that ended before the newest process came are an earlier run's.
    begun = max((p.process.started for p in [*ranks, *found] if p.gone_at is None), default=None)
    if begun is None:
        begun = max((p.process.started for p in [*ranks, *found]), default=0.0)
    return [p for p in found if p.gone_at is None or p.gone_at >= begun]


def _may_meet(process: RankProcess, programs: set[Hashable], masters: set[Hashable]) -> bool:
    """Whether a process runs the ranks' program and names no other MASTER_PORT than theirs."""
    return _runs(process) in programs and (_master(process) is None or not masters)


def _groups(processes: Sequence[P]) -> list[list[P]]:
    """Processes that run the same program, one group for each MASTER_PORT.

    A process without MASTER_PORT joins the largest group: a rank that is stuck before it sets the port is of the job.
    """
    by_program: dict[Hashable, list[P]] = {}
    for p in processes:
        by_program.setdefault(_runs(p.process), []).append(p)
    groups: list[list[P]] = []
    for same in by_program.values():
        by_master: dict[Hashable, list[P]] = {}
        for p in same:
            by_master.setdefault(_master(p.process), []).append(p)
        homeless = by_master.pop(None, [])
        largest = max(by_master.values(), key=len, default=None)
        if largest is None:
            groups.append(homeless)
        else:
            largest += homeless
            groups += by_master.values()
    return groups


def _runs(process: RankProcess) -> Hashable:
    """What processes without a number have in common; numbers in commands are descriptors and places."""
    program = _NUMBER.sub("#", process.command)
    return process.uid, process.env.get("SLURM_JOB_ID", ""), process.cwd, program


def _master(process: RankProcess) -> Hashable:
    """User and MASTER_PORT; None where the port is not known."""
    return None if process.master_port is None else (process.uid, process.master_port)


def _largest_run(processes: Sequence[P]) -> list[P]:
    runs: dict[RunKey, list[P]] = {}
    for p in processes:
        runs.setdefault(run_key(p.process), []).append(p)
    return max(
        runs.values(), key=lambda run: (sum(p.gone_at is None for p in run), max(p.process.started for p in run))
    )


def _age(process: RankOfJob) -> tuple[bool, float]:
    return process.gone_at is None, process.process.started
