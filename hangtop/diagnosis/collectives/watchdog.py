"""Time-outs of NCCL's watchdogs per process group: which rank waited in what, had launched less, or says nothing.

A group is known by its GUID, which is torch's name of it; older lines have its description or a number of their own
process, which several groups may share. Silence means something only of a member of the group whose log was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.groups import WHOLE, WHOLE_NAME, name_of
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import ranks_in, said
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import known_ranks

TIMEOUT, STATUS, ERROR = "torch.watchdog_timeout", "torch.watchdog_status", "torch.watchdog_error"


@dataclass(frozen=True, slots=True)
class TimedOutGroup:
    """One process group in the words of its ranks' watchdogs."""

    name: str
    """GUID; else the description or the process's number for it; empty where the lines name no group."""
    description: str
    events: tuple[LogEvent, ...]
    """Time-outs and the status that goes with them."""
    members: frozenset[int] | None
    """Global ranks of the group; None where nothing tells them."""
    several: bool
    """More than one group goes by this name: two ranks have one place in it."""

    @property
    def whole(self) -> bool:
        """The group of all ranks."""
        return bool(self.name) and (self.name in WHOLE or self.description == WHOLE_NAME)

    def ranks(self, job: Job) -> set[int] | None:
        """Its global ranks; those of the job, where lines name no group. None where nothing tells."""
        return known_ranks(job) if self.whole or not self.name else None if self.members is None else set(self.members)

    @property
    def label(self) -> str:
        """``3 (dp)``, or what there is of it."""
        return name_of(self.name, self.description) if self.name else self.description

    @property
    def timeouts(self) -> tuple[LogEvent, ...]:
        """The lines that tell what was outstanding."""
        return tuple(event for event in self.events if event.kind == TIMEOUT)

    @property
    def since(self) -> float:
        """When the first of them was written."""
        return min((event.at for event in self.events if event.at is not None), default=float("inf"))

    @property
    def enqueued(self) -> Mapping[int, int]:
        """The last collective that each rank says it had launched."""
        last: dict[int, int] = {}
        for event in self.events:
            number = number_of(event, "enqueued")
            if event.rank is not None and number is not None:
                last[event.rank] = max(number, last.get(event.rank, number))
        return last


def timed_out(job: Job) -> tuple[TimedOutGroup, ...]:
    """Groups with time-outs, the first to time out first."""
    events = _without_errors(job, (*said(job, TIMEOUT), *said(job, STATUS)))
    by_work = _names_by_work(events)
    by_name: dict[str, list[LogEvent]] = defaultdict(list)
    for event in events:
        by_name[_name(event) or _name_by_work(event, by_work)].append(event)
    described = {_name(event): text_of(event, "group_name") for event in events if text_of(event, "guid")}
    found = []
    for name, own in by_name.items():
        description = described.get(name, "")
        several = any(len(ranks) > 1 for ranks in _places(own).values())
        members = None if several else _members(job, name, description, own, events)
        found.append(TimedOutGroup(name, description, tuple(own), members, several))
    return tuple(sorted(found, key=lambda group: (group.since, group.name)))


def _without_errors(job: Job, events: Sequence[LogEvent]) -> list[LogEvent]:
    """Those of ranks that ran into a time-out: a watchdog tells the same of what NCCL failed with, peers that ended.

    It calls that a collective time-out as well, "from this local rank", and so do the others that it tells to dump
    (ProcessGroupNCCL.cpp of torch 2.11).
    """
    failed = {(event.source, event.rank) for event in said(job, ERROR)}
    late = {(event.source, event.rank) for event in events if event.kind == TIMEOUT}
    if failed and not late:
        return []
    return [event for event in events if (event.source, event.rank) in late or (event.source, event.rank) not in failed]


def unheard(job: Job, group: TimedOutGroup) -> tuple[int, ...]:
    """Members that say nothing of a time-out though their logs were read: they had nothing outstanding."""
    # torch 2.4 names the group in the status alone: a rank whose status has the same work reported it, too
    works = {number_of(event, "seq") for event in group.events} - {None}
    same = (event for event in said(job, STATUS) if number_of(event, "work") in works and not text_of(event, "guid"))
    reported = {*ranks_in(group.events), *ranks_in(same)}
    known = group.ranks(job)
    if known is None or not reported:
        return ()
    without = tuple(sorted(rank for rank in heard(job, group, known) if rank not in reported))
    return without if len(without) * 2 < len(known) else ()


def heard(job: Job, group: TimedOutGroup, ranks: Iterable[int]) -> set[int]:
    """Those of these ranks whose logs were read: by a word of theirs, or in a log that several ranks write into.

    A shared log is that of the ranks between the first and the last that speak in it, and of a few beside them: fewer
    than speak in one log, for else a log is missing. The only log there is, is that of all ranks.
    """
    wanted = set(ranks)
    by_source: dict[str, set[int]] = defaultdict(set)
    for event in (*job.events, *group.events):  # the latter with ranks that old lines have in brackets alone
        if event.rank is not None:
            by_source[event.source].add(event.rank)
    shared = [own for own in by_source.values() if len(own) > 1]
    if shared and len(by_source) == 1:
        return wanted
    inside = {rank for own in shared for rank in range(min(own), max(own) + 1)}
    inside |= {rank for own in by_source.values() for rank in own}
    span = min((max(own) - min(own) + 1 for own in shared), default=0)
    return {rank for rank in wanted if rank in inside or _gap(rank, inside, max(wanted)) < span}


def _gap(rank: int, inside: Set[int], most: int) -> int:
    """How many ranks lie between the nearest below and above that are inside."""
    below = max((one for one in inside if one < rank), default=-1)
    above = min((one for one in inside if one > rank), default=most + 1)
    return above - below - 1


def edges_by_watchdog(job: Job) -> tuple[WaitEdge, ...]:
    """Edges of time-outs: certain where ranks say how much they launched, not where one only says nothing."""
    found = []
    for group in timed_out(job):
        last, missing = group.enqueued, unheard(job, group)
        for event in group.timeouts if not group.several else ():
            rank, seq, ran = event.rank, number_of(event, "seq"), number_of(event, "ran_ms")
            if rank is None or seq is None:
                continue
            less = tuple(sorted(other for other, number in last.items() if number < seq))
            op, source = text_of(event, "op").lower(), f"{event.source}:{event.line}"
            since = None if event.at is None or ran is None else event.at - ran / 1000.0
            if less or missing:
                found.append(WaitEdge(rank, less or missing, group.label, op, seq, source, bool(less), since=since))
    return tuple(found)


# --- which group a line is about ---------------------------------------------------------------------------------

_Works = Mapping[tuple[int | None, int | None], Set[str]]


def _name(event: LogEvent) -> str:
    return text_of(event, "guid") or text_of(event, "group_name") or text_of(event, "group")


def _keys(rank: int | None, work: int | None) -> tuple[tuple[int | None, int | None], ...]:
    return (rank, work), (None, work), (None, None)


def _names_by_work(events: Iterable[LogEvent]) -> _Works:
    """Groups of the statuses, by rank and work, and by work of whatever rank: time-outs alone may name none."""
    found: dict[tuple[int | None, int | None], set[str]] = defaultdict(set)
    for event in events:
        if event.kind == STATUS and _name(event):
            for key in _keys(event.rank, number_of(event, "work")):
                found[key].add(_name(event))
    return found


def _name_by_work(event: LogEvent, by_work: _Works) -> str:
    """The group of a line that names none: the one whose status has the same work; empty where several have."""
    names = next(filter(None, (by_work.get(key) for key in _keys(event.rank, number_of(event, "seq")))), frozenset())
    return next(iter(names)) if len(names) == 1 else ""


def _places(events: Iterable[LogEvent]) -> dict[int, set[int]]:
    """Place in the group → global ranks that say so. A line that names no group repeats that of another one."""
    found: dict[int, set[int]] = defaultdict(set)
    for event in events:
        place = number_of(event, "group_rank")
        if _name(event) and event.rank is not None and place is not None:
            found[place].add(event.rank)
    return found


def _members(
    job: Job, name: str, description: str, own: Iterable[LogEvent], every: Iterable[LogEvent]
) -> frozenset[int] | None:
    """Ranks of a group: by a flight recorder's configuration, else by the step from place to place of those that speak.

    Its size is the most that a group of this description has.
    """
    speaking = set(ranks_in(own))
    for dump in job.recorders:
        ranks = dump.groups.get(name, ())
        if speaking & set(ranks):
            return frozenset(ranks)
    ordered = sorted((place, min(ranks)) for place, ranks in _places(own).items())
    if len(ordered) < 2:
        return None
    (first, begin), (last, end) = ordered[0], ordered[-1]
    step = (end - begin) // (last - first)
    if step < 1 or any(rank != begin + step * (place - first) for place, rank in ordered):
        return None
    alike = (event for event in every if description and text_of(event, "group_name") == description)
    size = max((last, *(number_of(event, "group_rank") or 0 for event in alike))) + 1
    return frozenset(begin + step * (place - first) for place in range(size))
