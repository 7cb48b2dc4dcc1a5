"""What waits to be sent on the ranks' TCP connections to other nodes of the job, and whether it gets through."""

from __future__ import annotations

from collections import defaultdict

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.addresses import nodes_by_name
from hangtop.diagnosis.job import Job

FRESH_S = 30.0
"""Seconds for which what looks showed to get through counts."""


def delivers(job: Job) -> bool:
    """Whether the last two looks at a rank saw more to send to another node, and some of it acknowledged in between."""
    if not job.live or not any(dump.queued for dump in job.stacks):
        return False
    alive = {(rank.node, rank.process.pid) for rank in job.ranks if rank.gone_at is None}
    looks: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        if (node, dump.pid) in alive and dump.method != "none":
            looks[node, dump.pid].append(dump)
    nodes, since = nodes_by_name(job), job.now - (job.stood_still or 0.0)
    for (node, _), dumps in looks.items():
        before, last = sorted(dumps, key=lambda dump: dump.at)[-2:] if len(dumps) > 1 else (dumps[0], dumps[0])
        acked = {(path.port, path.far): path.acked for path in before.queued}
        for path in last.queued if before.at >= since and job.now - last.at <= FRESH_S else ():
            far = nodes.get(path.far.rpartition(":")[0].strip("[]"), node)
            if far != node and path.acked > acked.get((path.port, path.far), path.acked):
                return True
    return False
