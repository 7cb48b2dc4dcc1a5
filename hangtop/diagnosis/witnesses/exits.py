"""Ranks whose program came to its end by itself, by their own words."""

from __future__ import annotations

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.failures import by_rank, failures
from hangtop.diagnosis.witnesses.messages import said

AT_EXIT = "torch.program_exit"
"""torch's warning that process groups were not destroyed; of the first rank of each node's GPUs, from 2.4 on
(ProcessGroupNCCL.cpp). Whoever was killed does not write it; whoever raised does as well."""


def came_to_their_end(job: Job) -> tuple[LogEvent, ...]:
    """Words of ranks that they are done; at exit only of those who tell no failure, where every failure has a rank."""
    ends = [event for event in said(job, "job.finished") if event.rank is not None]
    at_exit = [event for event in said(job, AT_EXIT) if event.rank is not None]
    if at_exit:
        told = failures(job)
        failed = by_rank(told)
        if all(failure.rank is not None or failure.consequence for failure in told):
            ends += [event for event in at_exit if event.rank not in failed]
    return tuple(ends)


def left_at_exit(job: Job) -> dict[int, LogEvent]:
    """The last word at exit of each rank that tells no failure, by rank."""
    return {event.rank: event for event in came_to_their_end(job) if event.kind == AT_EXIT and event.rank is not None}
