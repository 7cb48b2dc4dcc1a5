"""What waits to be sent on the ranks' TCP connections to other machines, look by look, and whether it gets through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.samples.stacks import QueuedPath
from hangtop.diagnosis.addresses import nodes_by_name
from hangtop.diagnosis.job import Job

FRESH_S = 30.0
"""Seconds for which what looks showed to get through counts."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A connection of a rank to another node of the job that had something to send when the rank was looked at last."""

    rank: int
    node: str
    far: str
    """Node at its other end."""
    looks: Sequence[tuple[float, QueuedPath]]
    """Looks that met something in its queue, oldest first."""


def queues(job: Job) -> tuple[Queue, ...]:
    """Connections that have something to send; worked out once for a picture."""
    return job.once(_queues)


def delivers(job: Job) -> bool:
    """Whether the last two looks at a rank saw more to send to a rank, and some of it acknowledged in between."""
    for queue in queues(job):
        if len(queue.looks) > 1:
            (since, before), (at, last) = queue.looks[-2:]
            if last.acked > before.acked and since >= job.now - (job.stood_still or 0.0) and job.now - at <= FRESH_S:
                return True
    return False


def _queues(job: Job) -> tuple[Queue, ...]:
    if not job.live or not any(dump.queued for dump in job.stacks):
        return ()
    ranks = {(one.node, one.process.pid): one.rank for one in job.ranks if one.gone_at is None}
    found: dict[tuple[str, int, int, str], list[tuple[float, QueuedPath]]] = defaultdict(list)
    newest: dict[tuple[str, int], float] = {}
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        rank = ranks.get((node, dump.pid))
        if rank is not None and dump.pid == dump.rank_pid and dump.method != "none":
            newest[node, rank] = max(dump.at, newest.get((node, rank), 0.0))
            for path in dump.queued:
                found[node, rank, path.port, path.far].append((dump.at, path))
    at = nodes_by_name(job)
    made = []
    for (node, rank, _, end), looks in sorted(found.items()):
        far = at.get(end.rpartition(":")[0].strip("[]"), "")
        looks.sort(key=lambda look: look[0])
        if far and far != node and looks[-1][0] == newest[node, rank]:
            made.append(Queue(rank, node, far, tuple(looks)))
    return tuple(made)
