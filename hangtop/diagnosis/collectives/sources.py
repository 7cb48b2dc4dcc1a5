"""The wait edges of all sources, and the flight recorder dumps that they rest on."""

from __future__ import annotations

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives.coll_log import edges_by_nccl_log
from hangtop.diagnosis.collectives.ras import edges_by_ras
from hangtop.diagnosis.collectives.recorder import Matched, match
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.collectives.watchdog import edges_by_watchdog
from hangtop.diagnosis.job import Job

CLOCKS_APART = 5.0
"""Seconds by which the clock in a dump may differ from ours."""


def waits_of(job: Job) -> tuple[WaitEdge, ...]:
    """Edges of all sources, the flight recorder's first: it sees most, and most exactly.

    Ranks are global. Sources may contradict each other: certain edges are to be followed first
    (:func:`~hangtop.diagnosis.collectives.ends.ends_of`).
    """
    return (*job.once(matched_dumps).edges, *edges_by_watchdog(job), *edges_by_ras(job), *edges_by_nccl_log(job))


def matched_dumps(job: Job) -> Matched:
    """The flight recorder dumps of the job, put side by side; ask by ``job.once``, for it takes its time."""
    return match(own_dumps(job))


def own_dumps(job: Job) -> tuple[RecorderDump, ...]:
    """Dumps of the job's processes: live, none that is older than the process that has the rank now."""
    started = {rank.rank: rank.process.started for rank in job.ranks} if job.live else {}
    return tuple(
        dump for dump in job.recorders if dump.at is None or dump.at >= started.get(dump.rank, dump.at) - CLOCKS_APART
    )
