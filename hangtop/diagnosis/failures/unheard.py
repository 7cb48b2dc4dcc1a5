"""Ranks that left no message of their end: by elimination, by the peers that lost them, and by their node's kernel.

A rank's silence means something only once its log was read to the time of its end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.evidence.events import events_on, ranks_in
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import duration
from hangtop.diagnosis.roster import home_of, living_on, world_or_logged
from hangtop.diagnosis.waits.job_status import JobStatus

UNREAD_S = 15.0
"""Ours: a node without a free core may take this long to read its logs; after that the answer does without them."""
AT_ONCE_S = 5.0
"""Most seconds between a process's end and the sample that no longer finds it."""
UNSEEN_LINKS = ("connecting", "stale", "lost")
"""States of links to nodes whose ranks may live out of view."""


def silent_ranks(job: Job, heard: Collection[int | None], closed: Sequence[LogEvent]) -> tuple[int, ...]:
    """Ranks that left no message while others lost their connections (``closed``); ``heard`` are ranks that left one.

    They count if the lost connections all lead to their node, or if they are few: a quarter of the job, whose other
    logs may be missing; less than half if every node of a live job is in view, or if all lost connections are in one
    log. In a live job victims are lost in their turn: lost connections to several nodes prove nothing.
    """
    spoke = {rank for rank in heard if rank is not None} | set(ranks_in(closed))
    world = world_or_logged(job) or (1 + max(spoke) if spoke else 0)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    silent = tuple(rank for rank in range(world) if rank not in spoke and rank not in living)
    where = {event.rank: event.host for event in job.events if event.rank is not None and event.host}
    where |= dict(home_of(job))
    peers = {_bare(text_of(event, "peer")) for event in closed} - {""}
    named = {name for name, node in job.nodes.items() if peers & names_of(node)}
    there = tuple(rank for rank in silent if where.get(rank) in named)
    if len(named) == 1 and there:
        return there
    if not spoke or (job.live and len(named) > 1):
        return ()
    in_view = job.live and all(node.link not in UNSEEN_LINKS for node in job.nodes.values())
    most = len({event.source for event in closed}) == 1 or in_view
    return silent if 4 * len(silent) <= world or (most and 2 * len(silent) < world) else ()


def _bare(peer: str) -> str:
    """``10.0.0.7`` of ``[10.0.0.7]:21177`` and of ``10.0.0.7<21177>``; an IPv6 address without its brackets."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    peer = peer.partition("<")[0]
    return peer.rpartition(":")[0] if peer.count(":") == 1 else peer


def kernel_kill(job: Job, nodes: Sequence[str], since: float, until: float) -> LogEvent | None:
    """The last out-of-memory kill of one node's kernel in that time; at one moment also its segmentation fault.

    Living ranks' processes do not count, nor does any kill while processes of other runs are on the node: it may be one
    of theirs. If the kernel's log is refused, a counter of the control group shows kills, but not of which process.
    """
    known = job.nodes.get(nodes[0]) if len(nodes) == 1 else None
    if known is None or any(other.node in nodes for other in (*job.others, *job.bystanders)):
        return None
    alive = {rank.process.pid for rank in living_on(job, nodes[0])}
    for kind in ("kernel.oom", "cgroup.oom_kill", *(("kernel.segfault",) if since == until else ())):
        kills = [
            event for event in events_on(job, known, kind)
            if (at := when(event)) is not None and since - AT_ONCE_S <= at <= until + AT_ONCE_S
            and (kind == "cgroup.oom_kill" or number_of(event, "pid") not in {None, *alive})
        ]  # fmt: skip
        if kills:
            return kills[-1]
    return None


def kernel_text(job: Job, event: LogEvent) -> str:
    """``the kernel killed process 4311 (python) there 3 min ago, out of memory``."""
    name, pid = text_of(event, "process"), number_of(event, "pid")
    what = f"a process of control group {text_of(event, 'cgroup')}" if pid is None else f"process {pid}"
    what += f"{f' ({name})' if name else ''} there {duration(max(0.0, job.now - (when(event) or job.now)))} ago"
    fault = event.kind == "kernel.segfault"
    return f"the kernel reports a segmentation fault of {what}" if fault else f"the kernel killed {what}, out of memory"


def logs_read_to(job: Job) -> float:
    """Time up to which all logs were read, by every node that reads any, as each may read another node's rank.

    A node that is more than ``UNREAD_S`` seconds behind is not waited for.
    """
    behind = [node.logs_read for node in job.nodes.values() if _reads(node)] if job.live else []
    return max(min(behind), job.now - UNREAD_S) if behind else inf


def logs_behind(job_status: JobStatus) -> tuple[str, ...]:
    """Nodes whose logs have not been read since the last rank ended, left or reported a failure.

    If there are none, the first failure is known.
    """
    job = job_status.job
    ended = [job.now - status.held for status in job_status.of("gone", "leaving")]
    failed = [min(failure.at, job.now) for failure in failures(job) if failure.at is not None]
    last = max((*ended, *failed), default=-inf)
    if last <= logs_read_to(job):
        return ()
    return tuple(sorted(name for name, node in job.nodes.items() if _reads(node) and node.logs_read < last))


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"
