"""Connections between nodes of a job that have more to send than they get rid of: the path is slow, not a rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import duration, ranks_text, size
from hangtop.diagnosis.tables.thresholds import SLOW_PATH_BYTES_PER_S, SLOW_PATH_S, SLOW_PATH_SHARE
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.witnesses.queues import queues

LOOKS = 3
"""Looks that must have met data in the queue."""
TOLD = 4


class SlowPath(NamedTuple):
    """One connection that is slow."""

    rank: int
    node: str
    far: str
    """Node at its other end."""
    seconds: float
    per_s: float
    """Bytes that were acknowledged, a second."""
    unsent: int


def slow_path(job_status: JobStatus) -> Iterator[Finding]:
    """slow_link: data wait to be sent between two nodes for seconds on end, and next to nothing gets through.

    Needs several looks at ranks, Linux 4.10, and TCP connections of theirs to addresses that are known to be another
    node's of the job: those within the own networks of containers are not. What the far end does not take, or waits
    for a buffer here, is no slow path.
    """
    job = job_status.job
    slow = list(_slow(job)) if job.live else []
    if not slow:
        return
    nodes = tuple(sorted({name for one in slow for name in (one.node, one.far)}))
    ranks = ranks_text(one.rank for one in slow)
    through, waits = sum(one.per_s for one in slow), sum(one.unsent for one in slow)
    by_sender: dict[str, list[SlowPath]] = defaultdict(list)
    for one in slow:
        by_sender[one.node].append(one)
    yield Finding(
        "slow_link", "warning", 0.75,
        f"between {nodes_text(nodes)} {size(through)}/s get through while {size(waits)} wait to be sent ({ranks})",
        nodes=nodes,
        evidence=tuple(_told(job, sender, own) for sender, own in sorted(by_sender.items())[:TOLD]),
        advice="Look at the link, its speed, errors and whoever shares it; measure the path between these nodes.",
        next=(next_step("P", "probe", "path", *nodes),),
    )  # fmt: skip


def _told(job: Job, sender: str, own: Sequence[SlowPath]) -> Evidence:
    said = [
        f"{ranks_text((one.rank,))} to {one.far}: {size(one.per_s)}/s over {duration(one.seconds)}, {size(one.unsent)}"
        " not sent yet"
        for one in own[:TOLD]
    ]
    return Evidence(f"sock_diag on {sender}", job.now, "; ".join(said))


def _slow(job: Job) -> Iterator[SlowPath]:
    for queue in queues(job):
        (began, first), (ended, last) = queue.looks[0], queue.looks[-1]
        span, acked = ended - began, last.acked - first.acked
        if len(queue.looks) < LOOKS or span < SLOW_PATH_S:
            continue
        busy = last.limited - first.limited >= SLOW_PATH_SHARE * span
        if busy and 0 < acked < SLOW_PATH_BYTES_PER_S * span:
            yield SlowPath(queue.rank, queue.node, queue.far, span, acked / span, last.unsent)
