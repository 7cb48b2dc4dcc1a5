"""Which processes are the ranks of the job, and which belong to something else.

Processes with a rank number belong together by their run: run id, MASTER_PORT, world size, Slurm job, user, and the
node of a run on one node. Processes without a number belong together by user, folder, command and MASTER_PORT.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.roster import reported_size

RunKey: TypeAlias = tuple[Hashable, ...]

TOGETHER_S = 30.0
"""Ours: seconds within which the nodes of one job start their ranks."""
_NUMBER = re.compile(r"\d+")
_TIMEOUT = re.compile(
    r"--?(?:ddp|nccl|dist(?:ributed)?|pg|process[-_]group|collective)[-_]?timeout([-_]min\w*)?[-_\w]*[ =](\d{1,6})\b",
    re.IGNORECASE,
)
"""Options by which scripts set the timeout of collectives."""


class JobSelection(NamedTuple):
    """All processes: the job's and others."""

    ranks: tuple[Rank, ...]
    """The job's ranks, in order, each with its newest process; processes without a number come first."""
    others: tuple[Rank, ...]
    """Living processes that claim a rank in another run."""
    bystanders: tuple[Rank, ...]
    """Living processes without a rank number that belong to something else."""
    ended: tuple[Rank, ...] = ()
    """Ended ranks of other runs."""


def with_ranks(snapshot: Job) -> Job:
    """The job of a snapshot, with its ranks, and without events in logs that only ranks of other runs write."""
    ranks, others, bystanders, ended = select_job(
        rank for node in snapshot.nodes.values() for rank in node.ranks.values()
    )
    theirs = _written((*others, *ended))
    theirs -= _written(ranks) if theirs else set()
    logged = zip(snapshot.event_nodes, snapshot.events, strict=True)
    events = [(node, event) for node, event in logged if (node, event.source) not in theirs]
    dumped = {(node, dump.rank_pid) for node, dump in zip(snapshot.stack_nodes, snapshot.stacks, strict=True)}
    return replace(
        snapshot,
        ranks=ranks,
        world_size=reported_size(rank.process.world_size for rank in ranks),
        stack_ranks={key: rank.rank for rank in ranks if (key := (rank.node, rank.process.pid)) in dumped},
        events=tuple(event for _, event in events),
        event_nodes=tuple(node for node, _ in events),
        collective_timeout=own_timeout(
            (rank.process.command for rank in ranks),
            (event.data.get("timeout_ms") for _, event in events if event.kind == "torch.watchdog_timeout"),
        ),
        others=others,
        bystanders=bystanders,
    )


def own_timeout(commands: Iterable[str], seen_ms: Iterable[object] = ()) -> float | None:
    """Seconds after which the job's collectives time out: from its watchdogs' messages, in ms, or its script's options.

    The shortest value counts; None without any.
    """
    said = [ms / 1000.0 for ms in seen_ms if isinstance(ms, int | float)]
    said += [float(n) * (60.0 if minutes else 1.0) for text in set(commands) for minutes, n in _TIMEOUT.findall(text)]
    return min((seconds for seconds in said if seconds > 0), default=None)


def _written(ranks: Iterable[Rank]) -> set[tuple[str, str]]:
    """(node, path) of the files that these processes write."""
    return {
        (rank.node, path)
        for rank in ranks
        for path in (rank.process.stdout, rank.process.stderr, rank.process.nccl_log)
        if path
    }


def select_job(processes: Iterable[Rank]) -> JobSelection:
    """The ranks of one job, and the living processes that belong to something else.

    The run with the most living ranks is the job; among equals, the newest run. Ended ranks with the same run id belong
    to it (its launcher restarted them). So do ranks that started at the same time and whose numbers no living rank of
    the job has: a job whose ranks look for different masters is one faulty job. Processes without a number belong to it
    if they have its MASTER_PORT or program. They are the job if no process has a number, or if they began after the
    last rank with a number had ended.
    """
    every = list(processes)
    runs: dict[RunKey, list[Rank]] = {}
    for p in every:
        runs.setdefault(_run_of(p), []).append(p)
    job = _with_unnumbered(_of_job(_candidates(runs)), every)
    best: dict[int, Rank] = {}
    for p in job:
        known = best.get(p.process.rank)
        if known is None or _age(p) > _age(known):
            best[p.process.rank] = p
    kept, of_job = {id(p) for p in best.values()}, {id(p) for p in job}
    left = [p for p in every if p.gone_at is None and id(p) not in kept]
    return JobSelection(
        tuple(best[rank] for rank in sorted(best)),
        tuple(p for p in left if p.process.rank >= 0),
        tuple(p for p in left if p.process.rank < 0),
        tuple(p for p in every if p.process.rank >= 0 and p.gone_at is not None and id(p) not in of_job),
    )


def _run_of(rank: Rank) -> RunKey:
    """The key that the processes of one run share; not MASTER_ADDR, which nodes may write in different ways."""
    process = rank.process
    if process.rank < 0:
        return "", _master(process), _program(process)
    of_user = process.env.get("SLURM_JOB_ID", ""), process.uid, rank.whole_on
    return process.run_id, process.master_port, process.world_size, *of_user


def _candidates(runs: dict[RunKey, list[Rank]]) -> dict[RunKey, list[Rank]]:
    """The runs that may be the job: a notebook next to an ended job is none."""
    numbered = {key: run for key, run in runs.items() if run[0].process.rank >= 0}
    living = [p for run in runs.values() for p in run if p.gone_at is None]
    over = max((p.gone_at or 0.0 for run in numbered.values() for p in run), default=0.0)
    if numbered and (any(p.process.rank >= 0 for p in living) or all(p.process.started < over for p in living)):
        return numbered
    return {key: run for key, run in runs.items() if key not in numbered}


def _of_job(runs: dict[RunKey, list[Rank]]) -> list[Rank]:
    """The processes of the job's run, and of runs that are parts of the same job."""
    if len(runs) < 2:
        return [p for run in runs.values() for p in run]
    key = max(runs, key=lambda key: (sum(p.gone_at is None for p in runs[key]), _begun(runs[key])))
    job = runs.pop(key)
    numbers = {p.process.rank for p in job if p.gone_at is None}
    for other, run in runs.items():
        again = other[0] == key[0] != "" and all(p.gone_at is not None for p in run)
        together = run[0].process.rank >= 0 and abs(_begun(run) - _begun(job)) <= TOGETHER_S
        if (again or together) and numbers.isdisjoint(p.process.rank for p in run):
            job = [*job, *run]
            numbers.update(p.process.rank for p in run if p.gone_at is None)
    return job


def _with_unnumbered(job: list[Rank], every: Sequence[Rank]) -> list[Rank]:
    """The job with its processes without a rank number, minus those of its earlier runs.

    A process without MASTER_PORT runs what the job runs: a rank that is stuck before it sets the port is of the job.
    Each run has new pids, so processes that ended before the newest process started are from an earlier run.
    """
    of_job = {id(p) for p in job}
    others = [p for p in every if p.process.rank < 0 and id(p) not in of_job]
    programs = {_program(p.process) for p in job} if others else set()
    masters = {_master(p.process) for p in job} - {None}

    def belongs(p: Rank) -> bool:
        master = _master(p.process)
        return master in masters or ((master is None or not masters) and _program(p.process) in programs)

    job = [*job, *filter(belongs, others)]
    begun = max(map(_age, job), default=(True, 0.0))[1]
    return [p for p in job if p.process.rank >= 0 or p.gone_at is None or p.gone_at >= begun]


def _begun(run: Sequence[Rank]) -> float:
    return min(p.process.started for p in run)


def _program(process: RankProcess) -> Hashable:
    """The key that processes of one program share; numbers in commands differ by rank (descriptors, places)."""
    return process.uid, process.env.get("SLURM_JOB_ID", ""), process.cwd, _NUMBER.sub("#", process.command)


def _master(process: RankProcess) -> Hashable:
    """User and MASTER_PORT; None if the port is not known."""
    return None if process.master_port is None else (process.uid, process.master_port)


def _age(process: Rank) -> tuple[bool, float]:
    return process.gone_at is None, process.process.started
