"""Which ranks a job has and where they run, including ranks without any process seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from collectors.samples import MOST_RANK
from hangtop.diagnosis.evidence.event_fields import number_of
from hangtop.diagnosis.job import Job, once
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.tables.thresholds import SILENT_S
from hangtop.diagnosis.unnumbered import numbered


def reported_size(sizes: Iterable[int | None]) -> int | None:
    """World size that most processes report, the larger one on a tie; None if no process reports one."""
    counted = Counter(sizes)
    del counted[None], counted[0]
    return max(counted, key=lambda size: (counted[size], size), default=None)


def world_size(job: Job) -> int | None:
    """World size of the job: its own figure, else the one that most of its processes report."""
    if job.world_size is not None:
        return job.world_size
    return reported_size(rank.process.world_size for rank in job.ranks)


def world_or_logged(job: Job) -> int | None:
    """World size, else the largest communicator or size in the logs of NCCL or a framework."""
    sizes = [progress.size for progress in job.progress if progress.size <= MOST_RANK]
    for kind in ("nccl.init", "job.size"):
        sizes += [size for _, event in job.events_of(kind) if (size := number_of(event, "size"))]
    return world_size(job) or max(sizes, default=None)


def known_ranks(job: Job) -> set[int]:
    """All ranks by the world size; without it, the ranks with a process, a log line or a launcher's line about them."""
    world = world_size(job)
    if world:
        return set(range(world))
    named = {number for event in job.events for number in (event.rank, number_of(event, "failed_rank"))}
    return set(numbered(rank.rank for rank in job.ranks)) | {number for number in named if number is not None}


@once
def home_of(job: Job) -> Mapping[int, str]:
    """Node of each rank whose process was seen, by rank."""
    return {rank.rank: rank.node for rank in job.ranks if rank.node}


def homes(job: Job, ranks: Collection[int]) -> tuple[str, ...]:
    """Nodes on which processes of these ranks were seen."""
    known = home_of(job)
    return tuple(sorted({known[rank] for rank in ranks if rank in known}))


def ranks_on_node(job: Job, name: str) -> tuple[int, ...]:
    """Ranks whose process was last seen on this node."""
    return tuple(sorted(rank.rank for rank in job.ranks_of(name)))


def living_on(job: Job, name: str) -> tuple[Rank, ...]:
    """Ranks with a living process on this node."""
    return tuple(rank for rank in job.ranks_of(name) if rank.gone_at is None)


def out_of_sight(job: Job, name: str) -> tuple[int, ...]:
    """Ranks of a node whose process source does not answer that were alive when last seen; now that is unknown.

    Empty if the source is merely late, as on a busy machine: then the ranks were seen moments ago.
    """
    node = job.nodes[name]
    ranks = node.sources.get("ranks")
    only_late = node.link == "live" and ranks is not None and ranks.state == "late" and job.now - ranks.since < SILENT_S
    if only_late or node.answers("ranks"):
        return ()
    return tuple(sorted(rank.rank for rank in living_on(job, name)))
