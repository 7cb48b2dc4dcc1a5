"""Puts together what single files cannot tell: which process is which rank, which names mean one communicator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.values import MOST_RANK
from hangtop.diagnosis.evidence.event_fields import number_of
from hangtop.session.folder.documents import Contents

Process = tuple[str, int]
"""(host, pid)"""

COUNTED_UP = 2
"""Ranks of a host at least that show how far ranks are from local ranks there."""
OF_A_NODE = 8
"""Ranks that a node has, as a rule: of a larger job one agent alone is not all."""
_REPORTS = ("elastic.failed", "elastic.failure", "launcher.exit")
"""Words of agents about their own node's ranks."""


def ranks_of_processes(contents: Contents) -> dict[Process, int]:
    """Global ranks: a process's place in the largest communicator, which is the world; then labels and launchers."""
    found: dict[Process, int] = {}
    world = max((size for *_, size in contents.members), default=0)
    for host, pid, rank, size in contents.members:
        if size == world and world > 1:
            found[host, pid] = rank
    for progress in contents.progress:
        if progress.global_rank is not None and progress.pid:
            found.setdefault((progress.host, progress.pid), progress.global_rank)
    for event in contents.events:
        if event.rank is not None and event.pid is not None and event.kind.startswith(("nccl.", "torch.")):
            found.setdefault((event.host, event.pid), event.rank)
    return found


def joined(events: Iterable[LogEvent], processes: dict[Process, int]) -> list[LogEvent]:
    """The events with their ranks, in order: those with a time by time, the others as they stand in their files."""
    events = list(events)
    by_pid, by_local = _by_pid(processes, events), _by_local(events)
    told = _one_node([_ranked(event, processes, by_pid, by_local) for event in events])
    return sorted(told, key=lambda event: (event.at is None, event.at or 0.0, event.source, event.line))


def _ranked(
    event: LogEvent, processes: dict[Process, int], by_pid: dict[int, int], by_local: dict[tuple[str, int], int]
) -> LogEvent:
    rank: int | None = event.rank
    if rank is None and event.pid is not None:
        rank = processes.get((event.host, event.pid), by_pid.get(event.pid))
    failed = event.data.get("failed_pid")
    if isinstance(failed, int) and "failed_rank" not in event.data and failed in by_pid:
        event = event._replace(data={**event.data, "failed_rank": by_pid[failed]})
    local = event.data.get("local_rank")
    if rank is None and isinstance(local, int) and not event.kind.startswith("elastic.f"):
        rank = by_local.get((event.host, local), by_local.get(("", local)))
    return event if rank == event.rank else event._replace(rank=rank)


def _one_node(events: list[LogEvent]) -> list[LogEvent]:
    """Where one agent alone speaks, and the job is no larger than a node, its local ranks are the ranks."""
    reports = [e for e in events if e.kind in _REPORTS and ("local_rank" in e.data or e.kind != "launcher.exit")]
    size = max((number_of(e, "size") or 0 for e in events if e.kind == "job.size"), default=0)
    most = max((local for e in events if isinstance(local := e.data.get("local_rank"), int)), default=0)
    if size > OF_A_NODE and most < OF_A_NODE:
        return events  # there are other nodes
    unlike = any(e.data.get("failed_rank", e.data.get("local_rank")) != e.data.get("local_rank") for e in reports)
    if unlike or len({e.source for e in reports}) != 1 or len({e.host for e in reports if e.host}) > 1:
        return events
    named = {"elastic.failed": "failed_rank", "launcher.exit": "task"}
    return [
        event._replace(data={named[event.kind]: local, **event.data})
        if event.kind in named and isinstance(local := event.data.get("local_rank"), int)
        else event
        for event in events
    ]


def _by_pid(processes: dict[Process, int], events: Sequence[LogEvent]) -> dict[int, int]:
    """Ranks by pid alone, where a pid means one rank."""
    found: dict[int, set[int]] = defaultdict(set)
    for (_, pid), rank in processes.items():
        found[pid].add(rank)
    for event in events:
        failed, its_rank = event.data.get("failed_pid"), event.data.get("failed_rank")
        if isinstance(failed, int) and isinstance(its_rank, int):
            found[failed].add(its_rank)
    return {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}


def _by_local(events: Sequence[LogEvent]) -> dict[tuple[str, int], int]:
    """Global ranks by (host, local rank), and by ("", local rank) where all hosts agree.

    A launcher counts its ranks up: where several of a host are as far from their local ranks, the others are, too.
    """
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    locals_of: dict[str, set[int]] = defaultdict(set)
    for event in events:
        local = event.data.get("local_rank")
        if isinstance(local, int):
            locals_of[event.host].add(local)
        rank = event.data.get("failed_rank") if event.kind == "elastic.failure" else event.rank
        if isinstance(local, int) and isinstance(rank, int):
            found[event.host, local].add(rank)
            found["", local].add(rank)
    for host, every in locals_of.items():
        known = {local: ranks for local in every if (ranks := found.get((host, local)))}
        away = {rank - local for local, ranks in known.items() for rank in ranks}
        if len(known) >= COUNTED_UP and len(away) == 1:
            for local in every - known.keys():
                found[host, local].add(local + next(iter(away)))
    return {key: next(iter(ranks)) for key, ranks in found.items() if len(ranks) == 1}


def same_communicators(progress: Sequence[CommProgress], processes: dict[Process, int]) -> list[CommProgress]:
    """Collectives with global ranks, their communicators named alike where no commId tells.

    A pointer says nothing outside its process. But where every process of a size has exactly one nameless
    communicator of that size, they can only be the same one.
    """
    ranked = [
        p if p.global_rank is not None else p._replace(global_rank=processes.get((p.host, p.pid))) for p in progress
    ]
    own = Counter((p.host, p.pid, p.size) for p in ranked if _nameless(p))
    several = {size for (_, _, size), number in own.items() if number > 1}
    return [_named(p) if _nameless(p) and p.size not in several else p for p in ranked]


def _nameless(progress: CommProgress) -> bool:
    return progress.comm.startswith(f"{progress.host}:{progress.pid}:") or not progress.comm


def _named(progress: CommProgress) -> CommProgress:
    rank = progress.rank
    if rank < 0 and progress.global_rank is not None:
        rank = progress.global_rank
    return progress._replace(comm=f"{progress.size} ranks" if progress.size else "the job", rank=rank)


def world_size(contents: Contents) -> int | None:
    """How many ranks the job has, by its largest communicator and by those who waited for all."""
    sizes = [size for *_, size in contents.members]
    sizes += [progress.size for progress in contents.progress]
    sizes += [len(ranks) for dump in contents.recorders for ranks in dump.groups.values()]
    sizes += [number_of(event, "expected") or 0 for event in contents.events if event.kind == "torch.store_timeout"]
    return max((size for size in sizes if size <= MOST_RANK), default=0) or None
