"""Everything that libraries say of who waits for whom in collectives: the one door for a graph of waits.

``waits_of(job)`` are the edges of flight recorders, watchdogs, RAS and NCCL's log. Ranks are global. Witnesses may
contradict each other; certain edges are to be followed first
(:func:`~hangtop.diagnosis.groups.ends.ends_of`).
"""

from __future__ import annotations

from hangtop.diagnosis.groups.counters import by_nccl_log, by_ras
from hangtop.diagnosis.groups.edges import Waits
from hangtop.diagnosis.groups.owners import own_dumps
from hangtop.diagnosis.groups.recorder import Matched, match
from hangtop.diagnosis.groups.timeouts import by_watchdog
from hangtop.diagnosis.job import Job


def waits_of(job: Job) -> tuple[Waits, ...]:
    """Edges of all witnesses, the flight recorder's first: it sees most, and most exactly."""
    return (*job.once(matched_dumps).edges, *by_watchdog(job), *by_ras(job), *by_nccl_log(job))


def matched_dumps(job: Job) -> Matched:
    """The flight recorder dumps of the job, put side by side; ask by ``job.once``, for it takes its time."""
    return match(own_dumps(job))
