"""Ranks whose program came to its end by itself, by their own words."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.failures import CLOCKS_S, by_rank, failures
from hangtop.diagnosis.witnesses.messages import said

SOON = 40
"""Lines behind the word that a run is done, within which what is said follows from it."""
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


def follow_from_the_end(job: Job, events: Iterable[LogEvent]) -> bool:
    """Whether words about the store follow from a good end: its server's rank had come to its own before each of them.

    So does what a rank says that was done itself, or behind a launcher's word of the end, where nothing failed. The
    store ends with rank 0's process, or with the agent that waited for it. A log may hold several runs, each with
    its end.
    """
    left = [event for event in came_to_their_end(job) if event.kind == AT_EXIT]
    if all(failure.consequence for failure in failures(job)):
        left += said(job, "job.finished")
    return bool(left) and all(any(_follows(event, end) for end in left) for event in events)


def _follows(event: LogEvent, end: LogEvent) -> bool:
    its_own = end.kind == "job.finished" and end.rank in (None, event.rank)
    if its_own and event.source == end.source and event.line - end.line > SOON:
        return False
    if not its_own and end.rank != event.data.get("from_rank", 0):
        return False
    if event.at is not None and end.at is not None:
        return event.at >= end.at - CLOCKS_S
    return event.source == end.source and event.line > end.line
