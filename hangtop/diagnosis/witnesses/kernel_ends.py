"""What the kernel told of the end of a rank that is not there: a kill for want of memory, a segmentation fault.

They are found by their time and node. The kernel names a process by a number that nobody can compare: of a rank that
ended before anybody looked none is known, and in a container or a pod processes have others than the kernel writes. The
counters of control groups, which stand in for a log that is refused, name none at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.witnesses.devices import events_on, living_on
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of, when

AT_ONCE_S = 5.0
"""Seconds between such an end and the look that no longer finds the process, at the most."""


def kill_beside(job: Job, node: str, *, since: float, until: float) -> LogEvent | None:
    """The latest kill on this node in that time; None for one of a process that still lives, or is another run's.

    Nor where processes of other runs are on the node: any of theirs may have been killed.
    """
    known = job.nodes.get(node)
    if known is None or _is_shared(job, node):
        return None
    found = _of_the_dead(job, node, "kernel.oom", since, until)
    if found is None:  # where the log is refused, a counter tells of kills but not of whom
        for event in events_on(job, known, "cgroup.oom_kill"):
            at = when(event)
            found = event if at is not None and since <= at <= until else found
    return found


def _is_shared(job: Job, node: str) -> bool:
    return any(other.node == node for other in (*job.others, *job.bystanders))


def _of_the_dead(job: Job, node: str, kind: str, since: float, until: float) -> LogEvent | None:
    """The latest that the kernel said of a process which is none of those that live."""
    alive = {rank.process.pid for rank in living_on(job, node)}
    found: LogEvent | None = None
    for event in events_on(job, job.nodes[node], kind):
        at, pid = when(event), number_of(event, "pid")
        if pid is not None and pid not in alive and at is not None and since <= at <= until:
            found = event
    return found


def kill_of_absent(job: Job, nodes: Sequence[str]) -> LogEvent | None:
    """A kill on the one node where a missing rank belongs, since the ranks beside it have started."""
    if len(nodes) != 1 or not living_on(job, nodes[0]):
        return None
    started = max(rank.process.started for rank in living_on(job, nodes[0]))
    return kill_beside(job, nodes[0], since=started, until=job.now)


def kill_at_end(job: Job, node: str, gone_at: float) -> LogEvent | None:
    """A kill on this node within seconds of when a rank was seen to be gone."""
    return kill_beside(job, node, since=gone_at - AT_ONCE_S, until=gone_at + AT_ONCE_S)


def kill_told(job: Job, event: LogEvent) -> str:
    """``the kernel killed process 4311 (python) there 3 min ago, out of memory``."""
    name, ago = text_of(event, "process"), _ago(job, event)
    if event.kind == "cgroup.oom_kill":
        kills = count(number_of(event, "kills") or 1, "process", "processes")
        return f"the kernel killed {kills} of control group {text_of(event, 'cgroup')} there{ago}, out of memory"
    return (
        f"the kernel killed process {number_of(event, 'pid')}{f' ({name})' if name else ''} there{ago}, out of memory"
    )


def segfault_at_end(job: Job, node: str, gone_at: float) -> LogEvent | None:
    """A segmentation fault on this node within seconds of when a rank was lost; None beside other runs."""
    if node not in job.nodes or _is_shared(job, node):
        return None
    return _of_the_dead(job, node, "kernel.segfault", gone_at - AT_ONCE_S, gone_at + AT_ONCE_S)


def segfault_told(job: Job, event: LogEvent) -> str:
    """``the kernel told of a segmentation fault of process 4311 there 9 s ago``."""
    pid = number_of(event, "pid")
    return f"the kernel told of a segmentation fault of process {pid} there{_ago(job, event)}"


def _ago(job: Job, event: LogEvent) -> str:
    at = when(event)
    return "" if at is None else f" {duration(max(0.0, job.now - at))} ago"
