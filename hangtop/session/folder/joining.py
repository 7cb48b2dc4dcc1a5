"""Joins files: which process is which rank, and which names mean the same communicator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from collectors.samples import MOST_RANK
from collectors.samples.logs import CommProgress, LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of
from hangtop.session.folder.documents import Contents

Process = tuple[str, int]
"""(host, pid)"""

SOME_NODE = "a node"
"""Host of kernel lines for which neither text nor file name gives one: rules about nodes find them there."""
OF_A_NODE = 8
"""Ours: ranks of one node at most; in a larger job, a single agent does not start all ranks."""
AGENTS_NUMBERS = {"elastic.failed": "failed_rank", "launcher.exit": "task"}
"""Events of agents about their own node's ranks, and the field that holds the rank."""


def ranks_of_processes(contents: Contents) -> dict[Process, int]:
    """Global rank of each process: its rank in the largest communicator, which is the world."""
    world = max((size for *_, size in contents.members), default=0)
    return {(host, pid): rank for host, pid, rank, size in contents.members if size == world > 1}


def joined(events: Sequence[LogEvent], processes: dict[Process, int]) -> list[LogEvent]:
    """The events with their ranks: first those with a time, by time, then the others in the order of their files."""
    first = _first_ranks(events)
    events = [_ranked(event, processes, first) for event in _watchdogs_ranked(events)]
    return sorted(events, key=lambda event: (event.at is None, event.at or 0.0, event.source, event.line))


def _watchdogs_ranked(events: Sequence[LogEvent]) -> list[LogEvent]:
    """The events; an error of a watchdog whose line begins with ``[Rank 1]``, as before torch 2.2, with that rank.

    The number counts within a group, and a process that fails has a line for each: several numbers name no rank.
    """
    bare = {
        place: number_of(event, "group_rank") for place, event in enumerate(events)
        if event.kind == "torch.watchdog_error" and event.rank is None and not {"group", "guid"} & event.data.keys()
    }  # fmt: skip
    rank = next(iter(bare.values())) if len(set(bare.values())) == 1 else None
    return [event._replace(rank=rank) if place in bare else event for place, event in enumerate(events)]


def _ranked(event: LogEvent, processes: dict[Process, int], first_ranks: dict[str, int]) -> LogEvent:
    """The event with the rank of its process, or from its local rank."""
    local, first = event.data.get("local_rank"), first_ranks.get(event.host, first_ranks.get(""))
    counted = first + local if isinstance(local, int) and first is not None else None
    named = AGENTS_NUMBERS.get(event.kind)
    if named is not None and counted is not None:
        event = event._replace(data={named: counted, **event.data})
    host = event.host or (SOME_NODE if event.kind.startswith("kernel.") else "")
    rank = processes.get((event.host, event.pid or 0)) if event.rank is None else event.rank
    return event._replace(rank=counted if rank is None and not event.kind.startswith("elastic.f") else rank, host=host)


def _first_ranks(events: Sequence[LogEvent]) -> dict[str, int]:
    """Host → rank of its local rank 0, from which a launcher counts up; host "" if all hosts agree.

    If there is a single agent, and the job is no larger than a node, local ranks are the ranks.
    """
    found: dict[str, set[int]] = defaultdict(set)
    for event in events:
        local = event.data.get("local_rank")
        rank = event.data.get("failed_rank") if event.kind == "elastic.failure" else event.rank
        if isinstance(local, int) and isinstance(rank, int):
            found[event.host].add(rank - local)
            found[""].add(rank - local)
    agents = {event.source for event in events if event.kind in AGENTS_NUMBERS and "local_rank" in event.data}
    size = max((number_of(event, "size") or 0 for event in events if event.kind == "job.size"), default=0)
    if not found and len(agents) == 1 and size <= OF_A_NODE:
        found[""].add(0)
    return {host: next(iter(ranks)) for host, ranks in found.items() if len(ranks) == 1}


def same_communicators(progress: Sequence[CommProgress], processes: dict[Process, int]) -> list[CommProgress]:
    """Collectives with global ranks, and one name per communicator if no commId names it.

    A pointer means nothing outside its process. But if each process has at most one nameless communicator of a size,
    these can only be the same communicator.
    """
    ranked = [
        p if p.global_rank is not None else p._replace(global_rank=processes.get((p.host, p.pid))) for p in progress
    ]
    nameless = Counter((p.host, p.pid, p.size) for p in ranked if _nameless(p))
    several = {size for (_, _, size), number in nameless.items() if number > 1}
    return [_named(p) if _nameless(p) and p.size not in several else p for p in ranked]


def _nameless(progress: CommProgress) -> bool:
    return progress.comm.startswith(f"{progress.host}:{progress.pid}:") or not progress.comm


def _named(progress: CommProgress) -> CommProgress:
    return progress._replace(comm=f"{progress.size} ranks" if progress.size else "the job")


def world_size(contents: Contents) -> int | None:
    """How many ranks the job has: the largest communicator, group or number of ranks that a store wait expected."""
    sizes = [size for *_, size in contents.members]
    sizes += [progress.size for progress in contents.progress]
    sizes += [len(ranks) for dump in contents.recorders for ranks in dump.groups.values()]
    sizes += [number_of(event, "expected") or 0 for event in contents.events if event.kind == "torch.store_timeout"]
    return max((size for size in sizes if size <= MOST_RANK), default=0) or None
