"""Time-outs of NCCL's watchdogs as progress of each process group, and those of gloo, which names no operation.

A group is identified by its GUID, which is torch's name of it; older lines have its description, or nothing. Silence
means something only for a member of the group whose log was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import log_events, ranks_in
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import known_ranks

TIMEOUT, STATUS, ERROR = "torch.watchdog_timeout", "torch.watchdog_status", "torch.watchdog_error"
FAR = 16
"""Spread of sequence numbers that ranks of one group seldom have."""


@dataclass(frozen=True, slots=True)
class TimedOutGroup:
    """One process group by the lines of its ranks' watchdogs."""

    name: str
    """GUID, else the description; empty where the lines name no group."""
    progress: LaunchProgress
    """By the time-outs and the numbers that ranks report as launched; members without a report are not covered."""
    events: tuple[LogEvent, ...]
    """Time-outs and the status that goes with them."""
    members: frozenset[int]
    """All ranks of the job for the group of all ranks, and if all of them report; else empty: no line lists them."""

    @property
    def timeouts(self) -> tuple[LogEvent, ...]:
        """The lines that name the collective which timed out."""
        return tuple(event for event in self.events if event.kind == TIMEOUT)


def timed_out(job: Job) -> tuple[TimedOutGroup, ...]:
    """Groups with time-outs, the first to time out first."""
    events = _without_errors(job, (*log_events(job, TIMEOUT), *log_events(job, STATUS)))
    named: dict[int | None, set[str]] = defaultdict(set)
    for event in events:
        named[event.rank] |= {_name(event)} - {""}
    by_name: dict[str, list[LogEvent]] = defaultdict(list)
    all_names = set[str]().union(*named.values())
    for event in events:  # a line without a group belongs to the only group that its rank, or any rank, names elsewhere
        names = named[event.rank] or all_names
        by_name[_name(event) or (next(iter(names)) if len(names) == 1 else "")].append(event)
    groups = [_group(job, name, lines) for name, lines in by_name.items()] + _over_gloo(job)
    return tuple(sorted(groups, key=lambda group: (min(e.at or float("inf") for e in group.events), group.name)))


def _over_gloo(job: Job) -> list[TimedOutGroup]:
    """A rank's time-out over gloo, which does not name the peer.

    By elimination: ranks without a line, while the others timed out or lost their connections, had not come.
    """
    events = log_events(job, "gloo.timeout")
    spoke = {rank for kind in ("gloo.closed", "python.exception") for rank in ranks_in(log_events(job, kind))}
    spoke.update(ranks_in(events))
    known = known_ranks(job)
    silent = known - spoke if spoke and 2 * len(known - spoke) <= len(known) else set()
    progress = LaunchProgress("", frozenset(silent), {}, {})
    return [TimedOutGroup("gloo", progress, events, frozenset(known))] if events else []


def _name(event: LogEvent) -> str:
    return text_of(event, "guid") or text_of(event, "group_name") or text_of(event, "group")


def _without_errors(job: Job, events: Sequence[LogEvent]) -> list[LogEvent]:
    """Leave out events of ranks whose watchdog reports an error and no time-out; if no rank timed out, all events.

    A watchdog reports an error of NCCL (a peer that ended) as a collective time-out "from this local rank" as well, and
    so do the watchdogs that it signals to dump (ProcessGroupNCCL.cpp of torch 2.11).
    """
    failed = {(event.source, event.rank) for event in log_events(job, ERROR)}
    late = {(event.source, event.rank) for event in events if event.kind == TIMEOUT}
    if failed and not late:
        return []
    return [event for event in events if (event.source, event.rank) in late or (event.source, event.rank) not in failed]


def _group(job: Job, name: str, events: Sequence[LogEvent]) -> TimedOutGroup:
    description = next((text_of(event, "group_name") for event in events if text_of(event, "guid")), "")
    group = Group(name, description=description)
    known = frozenset(known_ranks(job))
    members = known if group.whole or known <= set(ranks_in(events)) else frozenset[int]()
    last: dict[int, Operation] = {}
    waiting: dict[int, Operation] = {}
    completed: dict[int, int] = {}
    for event in sorted(events, key=lambda event: number_of(event, "seq") or 0):
        op, seq, ran = text_of(event, "op"), number_of(event, "seq"), number_of(event, "ran_ms")
        rank, enqueued, source = event.rank, number_of(event, "enqueued"), f"{event.source}:{event.line}"
        if rank is None:
            continue
        if event.kind == TIMEOUT and seq is not None and op and event.data.get("torn") is not True:
            since = None if event.at is None or ran is None else event.at - ran / 1000.0
            elements = number_of(event, "numel_in")
            size = "" if elements is None else f"{elements} elements"
            waiting.setdefault(rank, Operation(op, seq, source, since, size=size))
            enqueued = max(seq, enqueued or 0)
        if (done := number_of(event, "completed")) is not None:
            completed[rank] = max(done, completed.get(rank, done))
        if enqueued is not None:
            last[rank] = Operation(op, max(enqueued, last[rank].seq if rank in last else 0), source)
    numbers = [operation.seq for operation in waiting.values()]
    if not all(map(_name, events)) and numbers and max(numbers) - min(numbers) > FAR:
        last, waiting, completed = {}, {}, {}  # lines without a name, of several groups
    covered = _silent(job, members, events) | last.keys()
    progress = LaunchProgress(group.label if name else "", covered, last, waiting, completed=completed)
    return TimedOutGroup(name, progress, tuple(events), members)


def _silent(job: Job, members: frozenset[int], events: Sequence[LogEvent]) -> frozenset[int]:
    """Members without a line about a time-out though their logs were read: they had no open collective.

    A log was read if it has a line of the rank. Ranks may share logs: a single log counts for all ranks; of several,
    the widest range of rank numbers in one log is the number of consecutive ranks for each log.
    """
    reported = set(ranks_in(events))
    by_source: dict[str, set[int]] = defaultdict(set)
    for event in (*job.events, *events):
        if event.rank is not None:
            by_source[event.source].add(event.rank)
    shared = [ranks for ranks in by_source.values() if len(ranks) > 1]
    span = max((max(ranks) - min(ranks) + 1 for ranks in shared), default=1)
    read = {rank // span for ranks in by_source.values() for rank in ranks}
    heard = members if shared and len(by_source) == 1 else {rank for rank in members if rank // span in read}
    silent = frozenset(heard) - reported
    return silent if reported and len(silent) * 2 < len(members) else frozenset()
