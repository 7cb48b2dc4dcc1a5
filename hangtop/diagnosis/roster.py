"""Which ranks a job has, also where no process of them was ever seen."""

from __future__ import annotations

from collections.abc import Collection

from hangtop.diagnosis.failures import number_of
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.scene import world_size


def known_ranks(job: Job) -> set[int]:
    """Ranks of the job: by its size, else those with a process, a word, or a launcher's word about them."""
    world = world_size(job)
    if world:
        return set(range(world))
    told = {number for event in job.events for number in (event.rank, number_of(event, "failed_rank"))}
    return {rank.rank for rank in job.ranks} | {number for number in told if number is not None}


def homes(job: Job, ranks: Collection[int]) -> tuple[str, ...]:
    """Nodes on which processes of these ranks were seen."""
    return tuple(sorted({rank.node for rank in job.ranks if rank.rank in ranks}))
