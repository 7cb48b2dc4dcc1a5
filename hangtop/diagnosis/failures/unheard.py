"""Ranks that left no word of their end: by elimination, by the peers that lost them, and by the kernel of their node.

A rank's silence means something only once its log was read to the time of its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.evidence.events import events_on, ranks_in
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.roster import home_of, living_on, world_or_logged
from hangtop.diagnosis.waits.job_status import JobStatus

UNREAD_S = 15.0
"""Ours: a node whose cores are all taken may take this long to read its logs; then it is said what is known without."""
AT_ONCE_S = 5.0
"""Seconds between a process's end and the look that no longer finds it, at the most."""
UNSEEN_LINKS = ("connecting", "stale", "lost")
"""Links to nodes on which ranks may well live that are not in view."""


def silent_ranks(job: Job, told: Collection[int | None], closed: Sequence[LogEvent]) -> tuple[int, ...]:
    """Ranks that left no word while others lost their connections (``closed``); ``told`` are ranks that left one.

    They count where the others' lost connections all lead to their node, or if they are few: a quarter of the job,
    whose other logs may be missing; less than half where every node of a running job is in view, or where most ranks
    write to one log. Of a running job victims are lost in their turn, so several nodes that are named tell nothing.
    """
    spoke = {rank for rank in told if rank is not None} | set(ranks_in(closed))
    world = world_or_logged(job) or (1 + max(spoke) if spoke else 0)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    silent = tuple(rank for rank in range(world) if rank not in spoke and rank not in living)
    lines = {(event.source, event.line) for event in closed}
    if not silent or not (spoke or 0 < len(lines) <= len(living)):  # lines that say no rank are of ranks that live
        return ()
    where = {event.rank: event.host for event in job.events if event.rank is not None and event.host}
    where |= dict(home_of(job))
    named = _nodes_at(job, (text_of(event, "peer") for event in closed))
    there = tuple(rank for rank in silent if where.get(rank) in named)
    if len(named) == 1 and there:
        return there
    if job.live and len(named) > 1:
        return ()
    in_view = job.live and all(node.link not in UNSEEN_LINKS for node in job.nodes.values())
    in_view = in_view and all(rank.rank >= 0 for rank in job.ranks if rank.gone_at is None)
    one_log = len({event.source for event in closed}) == 1 and len(ranks_in(closed)) > max(1, len(silent))
    few = 4 * len(silent) <= world or (in_view and 2 * len(silent) < world)
    return silent if few or one_log else ()


def _nodes_at(job: Job, addresses: Iterable[str]) -> set[str]:
    """Nodes with these addresses, each with or without a port."""
    peers = {_bare(address) for address in addresses} - {""}
    return {name for name, node in job.nodes.items() if peers & names_of(node)}


def _bare(peer: str) -> str:
    """``10.0.0.7`` of ``[10.0.0.7]:21177`` and of ``10.0.0.7<21177>``; an IPv6 address without its brackets."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    peer = peer.partition("<")[0]
    return peer.rpartition(":")[0] if peer.count(":") == 1 else peer


KILLS = ("kernel.oom", "cgroup.oom_kill")
"""The kernel's kills for want of memory. Where its log is refused, a counter of the control group tells of kills, but
not of which process."""


def kernel_at(job: Job, node: str, at: float | None) -> LogEvent | None:
    """The kernel's kill for want of memory, else its segmentation fault, on this node within seconds of ``at``."""
    return None if at is None else kernel_between(job, node, at - AT_ONCE_S, at + AT_ONCE_S, *KILLS, "kernel.segfault")


def kernel_between(job: Job, node: str, since: float, until: float, *kinds: str) -> LogEvent | None:
    """The latest event of the first of these kinds in that time, of a process that is no living rank's.

    None where processes of other runs are on the node: it may be one of theirs.
    """
    known = job.nodes.get(node)
    if known is None or any(other.node == node for other in (*job.others, *job.bystanders)):
        return None
    alive = {rank.process.pid for rank in living_on(job, node)}
    for kind in kinds:
        found = [
            event for event in events_on(job, known, kind)
            if (at := when(event)) is not None and since <= at <= until
            and (kind == "cgroup.oom_kill" or number_of(event, "pid") not in {None, *alive})
        ]  # fmt: skip
        if found:
            return found[-1]
    return None


def kernel_text(job: Job, event: LogEvent) -> str:
    """``the kernel killed process 4311 (python) there 3 min ago, out of memory``."""
    at, name = when(event), text_of(event, "process")
    ago = "" if at is None else f" {duration(max(0.0, job.now - at))} ago"
    if event.kind == "cgroup.oom_kill":
        kills = count(number_of(event, "kills") or 1, "process", "processes")
        return f"the kernel killed {kills} of control group {text_of(event, 'cgroup')} there{ago}, out of memory"
    process = f"process {number_of(event, 'pid')}"
    if event.kind == "kernel.segfault":
        return f"the kernel told of a segmentation fault of {process} there{ago}"
    return f"the kernel killed {process}{f' ({name})' if name else ''} there{ago}, out of memory"


def logs_read_to(job: Job) -> float:
    """What logs said until then is known: by every node that reads any, as each may read another's rank.

    For more than ``UNREAD_S`` seconds no node is waited for.
    """
    behind = [_read_to(node) for node in job.nodes.values() if _reads(node)] if job.live else []
    return max(min(behind), job.now - UNREAD_S) if behind else inf


def logs_behind(job_status: JobStatus) -> tuple[str, ...]:
    """Nodes whose logs have not been read since the last rank ended, left or told of a failure.

    None: the first to fail is known by now.
    """
    job = job_status.job
    ended = [job.now - status.held for status in job_status.of("gone", "leaving")]
    failed = [min(failure.at, job.now) for failure in failures(job) if failure.at is not None]
    last = max((*ended, *failed), default=-inf)
    if last <= logs_read_to(job):
        return ()
    return tuple(sorted(name for name, node in job.nodes.items() if _reads(node) and _read_to(node) < last))


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"


def _read_to(node: Node) -> float:
    return -inf if node.logs_read is None else node.logs_read
