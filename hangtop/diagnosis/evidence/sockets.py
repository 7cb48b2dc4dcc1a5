"""What waits to be sent on the ranks' TCP connections to other machines, look by look, and whether it gets through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.stacks import QueuedPath
from hangtop.diagnosis.addresses import nodes_by_name
from hangtop.diagnosis.job import Job

FRESH_S = 30.0
"""Seconds for which what looks showed to get through counts."""


_UNKNOWN: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Queue:
    """A connection of a rank to another node of the job that had something to send when the rank was looked at last."""

    rank: int
    node: str
    far: str
    """Node at its other end."""
    looks: Sequence[tuple[float, QueuedPath]]
    """Looks that met something in its queue, oldest first."""
    to_rank: bool = True
    """Whether a rank has the other end, as far as one knows: else it is no part of a collective."""


def queues(job: Job) -> tuple[Queue, ...]:
    """Connections that have something to send; worked out once for a picture."""
    return job.once(_queues)


def delivers(job: Job) -> bool:
    """Whether the last two looks at a rank saw more to send to a rank, and some of it acknowledged in between."""
    for queue in queues(job):
        if queue.to_rank and len(queue.looks) > 1:
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
    ends = _ports(job, ranks)
    made = []
    for (node, rank, _, end), looks in sorted(found.items()):
        address, _, there = end.rpartition(":")
        far = at.get(address.strip("[]"), "")
        looks.sort(key=lambda look: look[0])
        if far and far != node and looks[-1][0] == newest[node, rank]:
            known = ends.get(far, _UNKNOWN)
            made.append(Queue(rank, node, far, tuple(looks), not known or there in known))
    return tuple(made)


def _ports(job: Job, ranks: Mapping[tuple[str, int], int]) -> dict[str, frozenset[str]]:
    """Ports of the connections that the ranks of each node have to others; none where one of them told none."""
    newest: dict[tuple[str, int], Sequence[int]] = {}
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        rank = ranks.get((node, dump.pid))
        if rank is not None and dump.pid == dump.rank_pid and dump.ports:
            newest[node, rank] = dump.ports
    found: dict[str, set[str]] = defaultdict(set)
    for (node, _), own in newest.items():
        found[node].update(map(str, own))
    silent = {node for (node, _), rank in ranks.items() if (node, rank) not in newest}
    return {node: frozenset(ports) for node, ports in found.items() if node not in silent}
