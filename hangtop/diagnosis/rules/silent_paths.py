"""Connections between nodes of a job that stands still, on which nothing that is sent is acknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from hangtop.diagnosis.addresses import nodes_by_address
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.diagnosis.waits.job_status import JobStatus

FRESH_S = 15.0
"""Seconds for which a look at a rank's connections counts."""
TOLD = 4
"""Nodes, ranks and connections that are written down as proof, of each."""

Silent: TypeAlias = Mapping[tuple[str, str], Mapping[int, list[str]]]
"""(sender, receiver) → rank of the sender → far ends that acknowledge nothing."""


def path_blocked(job_status: JobStatus) -> Iterator[Finding]:
    """path_blocked: the job stands still, and the kernels of its nodes send to one another again and again in vain.

    Needs looks at ranks whose network namespace may be entered, and TCP connections of theirs to other nodes of the
    job, as gloo's and those of NCCL's sockets. Of a rank that is stopped the kernel still acknowledges: that is none.
    """
    job = job_status.job
    if not job.live or not (job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after):
        return
    silent = _silent(job)
    if not silent:
        return
    nodes = _at_fault(silent)
    ranks = sorted({rank for own in silent.values() for rank in own})
    ways = sum(len(ends) for own in silent.values() for ends in own.values())
    if ways == 1 and (job.stood_still or 0.0) < job_status.alarm_after:
        return  # where packets get lost, four losses running of one connection are no cut
    where = f"to and from {nodes[0]}" if len(nodes) == 1 else f"between {nodes_text(nodes)}"
    yield Finding(
        "path_blocked", "critical", 0.85,
        f"{where} nothing is acknowledged of what is sent on {count(ways, 'connection')} ({ranks_text(ranks)})",
        nodes=nodes,
        evidence=tuple(_told(job, *pair, own) for pair, own in sorted(silent.items())[:TOLD]),
        advice="Look at the link, the firewall and the MTU between these nodes: small packets may pass where full ones "
        "do not.",
        next=(next_step("P", "probe", "path", *sorted({name for pair in silent for name in pair})),),
    )  # fmt: skip


def _told(job: Job, sender: str, receiver: str, own: Mapping[int, list[str]]) -> Evidence:
    said = "; ".join(f"{ranks_text((rank,))} to {', '.join(ends[:TOLD])}" for rank, ends in sorted(own.items())[:TOLD])
    return Evidence(f"sock_diag on {sender}", job.now, f"to {receiver}, sent again and again: {said}")


def _silent(job: Job) -> Silent:
    ranks = {(one.node, one.process.pid): one.rank for one in job.ranks if one.gone_at is None}
    since = job.now - FRESH_S
    newest = {
        (node, dump.pid): dump for node, dump in zip(job.stack_nodes, job.stacks, strict=False)
        if dump.pid == dump.rank_pid and dump.at >= since and (node, dump.pid) in ranks
    }  # fmt: skip
    found: dict[tuple[str, str], dict[int, list[str]]] = defaultdict(dict)
    if not any(dump.unanswered for dump in newest.values()):
        return found
    at = nodes_by_address(job, ((node, dump) for (node, _), dump in newest.items()))
    for (node, pid), dump in newest.items():
        for end in dump.unanswered:
            far = at.get(end.rpartition(":")[0].strip("[]"), "")
            if far and far != node:
                found[node, far].setdefault(ranks[node, pid], []).append(end)
    return found


def _at_fault(silent: Silent) -> tuple[str, ...]:
    """The one node that all of these connections go to or come from, where it has several partners; else all."""
    every = {name for pair in silent for name in pair}
    common = [name for name in every if all(name in pair for pair in silent)]
    return tuple(common) if len(common) == 1 and len(every) > 2 else tuple(sorted(every))
