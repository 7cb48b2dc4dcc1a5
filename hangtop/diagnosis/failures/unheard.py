"""Ranks that left no word of their end: by elimination, by the peers that lost them, and by the kernel of their node.

A rank's silence means something only once its log was read to the time of its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.devices import living_on
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.evidence.events import events_on, ranks_in, said
from hangtop.diagnosis.failures.first import finished_ranks
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.roster import home_of, world_or_logged
from hangtop.diagnosis.tables.thresholds import UNREAD_S
from hangtop.diagnosis.waits.job_status import JobStatus

AT_ONCE_S = 5.0
"""Seconds between a process's end and the look that no longer finds it, at the most."""
UNSEEN_LINKS = ("connecting", "stale", "lost")
"""Links to nodes on which ranks may well live that are not in view."""


class SilentRanks(NamedTuple):
    """Ranks that left no word, and the node that they share; empty where nothing tells."""

    ranks: tuple[int, ...] = ()
    node: str = ""


def silent_ranks(job: Job, told: Collection[int | None], closed: Sequence[LogEvent]) -> SilentRanks:
    """Ranks that left no word while others lost their connections (``closed``); ``told`` are ranks that left one.

    They count if they are few, or if the others' lost connections all lead to their node. Of a job that is over the log
    of a rank may only be missing, so few is a quarter, unless most ranks write to one log. Of a running job few is less
    than half of the ranks, and victims are lost in their turn: of several nodes that are named, the one that was lost
    first counts.
    """
    spoke = {rank for rank in told if rank is not None} | set(ranks_in(closed))
    world = world_or_logged(job) or (1 + max(spoke) if spoke else 0)
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    silent = tuple(rank for rank in range(world) if rank not in spoke and rank not in living)
    lines = {(event.source, event.line) for event in closed}
    if not silent or not (spoke or 0 < len(lines) <= len(living)):  # lines that say no rank are of ranks that live
        return SilentRanks()
    where = _homes(job)
    named = _named_nodes(job, closed)
    if job.live and len(named) > 1:
        lost_first = _named_nodes(job, _first(closed))
        named = {where[rank] for rank in silent if where.get(rank) in named & lost_first}
        if not named:
            return SilentRanks()
    there = tuple(rank for rank in silent if where.get(rank) in named)
    if len(named) == 1 and there:
        return SilentRanks(there, next(iter(named)))
    if len(silent) * 4 > world and not (_all_in_view(job) and len(silent) * 2 < world) and not _one_log(silent, closed):
        return SilentRanks()
    shared = {where.get(rank, "") for rank in silent}
    return SilentRanks(silent, next(iter(shared)) if len(shared) == 1 else "")


def _all_in_view(job: Job) -> bool:
    """A running job of which every node responds and every process says which rank it is."""
    hidden = any(node.link in UNSEEN_LINKS for node in job.nodes.values())
    return job.live and not hidden and all(rank.rank >= 0 for rank in job.ranks if rank.gone_at is None)


def _one_log(silent: Collection[int], closed: Sequence[LogEvent]) -> bool:
    """Several ranks speak, all of them in one log, and fewer are silent: it is the whole job's, and was read."""
    spoke = ranks_in(closed)
    return len({event.source for event in closed}) == 1 and len(spoke) > max(1, len(silent))


def _first(closed: Sequence[LogEvent]) -> list[LogEvent]:
    return sorted((event for event in closed if event.at is not None), key=lambda event: event.at or 0.0)[:1]


def silent_survivor(job: Job, told: Collection[int | None], closed: Sequence[LogEvent]) -> int | None:
    """The rank of a running job that is there and says nothing, where all of two or more others lost a connection."""
    spoke = {rank for rank in told if rank is not None} | set(ranks_in(closed))
    world = world_or_logged(job)
    if not job.live or not closed or world is None or len(spoke) < 2:
        return None
    quiet = set(range(world)) - spoke
    there = {rank.rank for rank in job.ranks if rank.gone_at is None}
    return next(iter(quiet)) if len(quiet) == 1 and quiet <= there else None


def finished_before(job: Job, closed: Sequence[LogEvent]) -> tuple[LogEvent, ...]:
    """Words of ranks that were done before others lost their connections."""
    lost = min((event.at for event in closed if event.at is not None), default=None)
    victims = set(ranks_in(closed))
    return tuple(
        event
        for event in finished_ranks(job)
        if event.rank not in victims
        and (event.at is None or lost is None or event.at <= lost)
        and not any(event.source == other.source and event.line > other.line and event.at is None for other in closed)
    )


def ended_well(job: Job, ranks: Collection[int]) -> tuple[LogEvent, ...]:
    """Torchrun's reports by which these ranks ended with exit code 0; empty where not all of them are told so.

    An agent lists every rank of its node that failed, and says which ones it ended. The ranks of a node follow each
    other, so a rank in neither list is known by the local rank of one that is listed.
    """
    listed = said(job, "elastic.failure")
    failed = {number_of(event, "failed_rank") for event in listed}
    ended = {event.source for event in said(job, "elastic.closing")}
    found: list[LogEvent] = []
    for rank in ranks:
        beside = [event for event in listed if event.source not in ended and _on_its_node(event, rank)]
        if rank in failed or not beside:
            return ()
        found += [beside[0]] if beside[0] not in found else []
    return tuple(found)


def _on_its_node(event: LogEvent, rank: int) -> bool:
    number, local = number_of(event, "failed_rank"), number_of(event, "local_rank")
    return number is not None and local is not None and number - local <= rank < number


def _homes(job: Job) -> Mapping[int, str]:
    """Node of each rank: where its process was seen, else the host in its lines."""
    homes = {event.rank: event.host for event in job.events if event.rank is not None and event.host}
    return homes | dict(home_of(job))


def _named_nodes(job: Job, closed: Iterable[LogEvent]) -> set[str]:
    return nodes_at(job, (text_of(event, "peer") for event in closed))


def nodes_at(job: Job, addresses: Iterable[str]) -> set[str]:
    """Nodes with these addresses, each with or without a port: by their interfaces, or by NCCL's own word."""
    peers = {_bare(address) for address in addresses} - {""}
    of_address = {text_of(event, "address"): event.host for event in said(job, "nccl.bootstrap") if event.host}
    named = {of_address[peer] for peer in peers if peer in of_address}
    return named | {name for name, node in job.nodes.items() if peers & names_of(node)}


def _bare(peer: str) -> str:
    """``10.0.0.7`` of ``[10.0.0.7]:21177`` and of ``10.0.0.7<21177>``; an IPv6 address without its brackets."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    peer = peer.partition("<")[0]
    return peer.rpartition(":")[0] if peer.count(":") == 1 else peer


def kernel_at(job: Job, node: str, at: float | None, *, segfaults: bool = True) -> LogEvent | None:
    """The kernel's kill for want of memory, else its segmentation fault, on this node within seconds of ``at``."""
    return None if at is None else kernel_between(job, node, at - AT_ONCE_S, at + AT_ONCE_S, segfaults=segfaults)


def kernel_between(job: Job, node: str, since: float, until: float, *, segfaults: bool = False) -> LogEvent | None:
    """The latest such word in that time, of a process that is no living rank's.

    None where processes of other runs are on the node: it may be one of theirs. Where the kernel's log is refused, a
    counter of the control group tells of kills, but not of which process.
    """
    known = job.nodes.get(node)
    if known is None or any(other.node == node for other in (*job.others, *job.bystanders)):
        return None
    alive = {rank.process.pid for rank in living_on(job, node)}
    for kind in ("kernel.oom", "cgroup.oom_kill", *(("kernel.segfault",) if segfaults else ())):
        found = [
            event
            for event in events_on(job, known, kind)
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
