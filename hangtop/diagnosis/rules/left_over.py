"""Ranks that a run which is over left behind, and that may hold GPUs or ports of the job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Evidence, Finding, Observer, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count, listed

BY_HAND = frozenset(("", "env", "jax", "lightning"))
"""Ways to start ranks that need no launcher."""


def zombie_process(job: Job) -> Iterator[Finding]:
    """zombie_process: processes of an earlier run that are still alive.

    Another job that is at work on the same node is none of this job's business.
    """
    left: dict[str, list[Rank]] = defaultdict(list)
    for one in job.others:
        if left_over(one, job.others):
            left[one.node].append(one)
    for name, others in sorted(left.items()):
        pids = [str(other.process.pid) for other in others]
        holds = sorted({f"{name}:{index}" for other in others for index in other.gpus})
        yield Finding(
            "zombie_process", "warning", 0.8 if holds else 0.65,
            f"{count(len(others), 'process', 'processes')} of another run still on {name}: pid {listed(pids)}",
            nodes=(name,), gpus=tuple(holds),
            evidence=tuple(
                Evidence(Observer.PROCESS, f"process {other.process.pid} on {name}", other.process.started,
                         f"RANK={other.rank}, run {other.process.run_id or 'unnamed'}: {other.process.command}")
                for other in others[:4]
            ),
            advice=f"If that run is over, end them: kill {' '.join(pids[:8])}",
            next=(next_step("K", "repair", "orphans", name),),
        )  # fmt: skip


def left_over(one: Rank, others: Sequence[Rank]) -> str:
    """Why a rank is what a run that is over left behind; empty for one that is not.

    Its launcher is gone, and an init is its parent. A rank that was started by hand may have had an init as its parent
    from the start: of its run, ranks must be missing on its node.
    """
    if not one.process.adopted:
        return ""
    had, left = one.process.local_world_size or 0, {other.rank for other in others if _run(other) == _run(one)}
    if len(left) < had:
        return f"{len(left)} of the {had} ranks that its run had here are left"
    return "" if one.process.launcher in BY_HAND else f"its launcher ({one.process.launcher}) is gone"


def _run(rank: Rank) -> tuple[str, str, int | None, int | None]:
    """What ranks of one run have in common on a node."""
    return rank.node, rank.process.run_id, rank.process.master_port, rank.process.world_size


RULES = (zombie_process,)
