"""Ranks that left no word: by elimination, by those who lost them, by the kernel, and by how far logs were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.devices import living_on
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.evidence.events import events_on, ranks_in, said
from hangtop.diagnosis.failures.ends import came_to_their_end
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.roster import home_of, world_or_logged
from hangtop.diagnosis.tables.thresholds import UNREAD_S

if TYPE_CHECKING:
    from hangtop.diagnosis.waits.job_status import JobStatus


class UnheardRanks(NamedTuple):
    """Ranks without a word that others lost, and the node that they share; both empty where nothing tells."""

    ranks: tuple[int, ...] = ()
    node: str = ""


def without_word(job: Job, told: Collection[int | None], closed: Sequence[LogEvent]) -> UnheardRanks:
    """Ranks that left no word while others lost their connections.

    ``told`` are the ranks that said something of their end, ``closed`` the words about lost connections. Up to a
    quarter of all ranks counts by itself: more may only not have been read yet, unless most of the job writes to one
    log. Then those count that live on the one
    node which the others name as the far end of what they lost. Victims are lost in their turn: of a running job whose
    ranks name several nodes, the one where somebody is wordless counts if the first to lose anything names it.
    """
    spoke = {rank for rank in told if rank is not None} | set(ranks_in(closed))
    if not spoke:
        return _absent_ones(job, closed)
    world = world_or_logged(job) or 1 + max(spoke)
    staying = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    wordless = tuple(rank for rank in range(world) if rank not in spoke and rank not in staying)
    if not wordless:
        return UnheardRanks()
    homes = _homes(job)
    named = _named_nodes(job, closed)
    if job.live and len(named) > 1:
        named = {home for rank in wordless if (home := homes.get(rank, "")) in named} & _named_nodes(
            job, _first(closed)
        )
    there = tuple(rank for rank in wordless if homes.get(rank, "") in named)
    if len(named) == 1 and there:
        return UnheardRanks(there, next(iter(named)))
    if len(wordless) * 4 <= world or _in_one_log(wordless, closed):
        nodes = {homes.get(rank, "") for rank in wordless}
        return UnheardRanks(wordless, next(iter(nodes)) if len(nodes) == 1 else "")
    return UnheardRanks()


def lingering_one(job: Job, told: Collection[int | None], closed: Sequence[LogEvent]) -> int | None:
    """The rank of a running job that is there and has said nothing, where all others lost their connections.

    Whoever lost one lost it to somebody, and somebody was the first to close: of those who speak each is a victim.
    None unless two or more speak: of two ranks each may be the one whose network broke.
    """
    spoke = {rank for rank in told if rank is not None} | set(ranks_in(closed))
    world = world_or_logged(job)
    if not job.live or not closed or world is None or len(spoke) < 2:
        return None
    quiet = set(range(world)) - spoke
    there = {rank.rank for rank in job.ranks if rank.gone_at is None}
    return next(iter(quiet)) if len(quiet) == 1 and quiet <= there else None


def _absent_ones(job: Job, closed: Sequence[LogEvent]) -> UnheardRanks:
    """Ranks of a running job that are on no node, where nothing tells whose the words about lost connections are.

    JAX's processes write to one terminal without a number, and those that lost one stay for a while: they wait for it
    at their shutdown. So it is the smaller part that is gone, and no more have spoken than are there.
    """
    world = world_or_logged(job)
    staying = {rank.rank for rank in job.ranks if rank.gone_at is None}
    hidden = any(node.link in ("connecting", "stale", "lost") for node in job.nodes.values())
    if not job.live or not closed or world is None or hidden or any(rank < 0 for rank in staying):
        return UnheardRanks()
    gone = tuple(rank for rank in range(world) if rank not in staying)
    spoke = len({(event.source, event.line) for event in closed if event.kind == "python.exception"})
    if not staying or len(gone) * 2 >= world or spoke > len(staying):
        return UnheardRanks()
    nodes = {_homes(job).get(rank, "") for rank in gone}
    return UnheardRanks(gone, next(iter(nodes)) if len(nodes) == 1 else "")


def _in_one_log(wordless: Collection[int], closed: Sequence[LogEvent]) -> bool:
    """Several ranks speak, all of them in one log, and fewer are wordless: it is the whole job's, and was read."""
    spoke = ranks_in(closed)
    return len({event.source for event in closed}) == 1 and len(spoke) > max(1, len(wordless))


def finished_early(job: Job, closed: Sequence[LogEvent]) -> tuple[LogEvent, ...]:
    """Words of ranks that came to their end before others lost their connections."""
    lost = min((event.at for event in closed if event.at is not None), default=None)
    victims = set(ranks_in(closed))
    return tuple(
        event
        for event in came_to_their_end(job)
        if event.rank not in victims
        and (event.at is None or lost is None or event.at <= lost)
        and not any(_stands_behind(event, other) for other in closed)
    )


def _stands_behind(event: LogEvent, lost: LogEvent) -> bool:
    """Whether a word without a time stands below another one in the same log."""
    return event.source == lost.source and event.line > lost.line and (event.at is None or lost.at is None)


def ended_well(job: Job, ranks: Collection[int]) -> tuple[LogEvent, ...]:
    """Reports of torchrun by which these ranks did not fail, one of each; empty where not all of them are told so.

    Its agent lists every rank of its node that failed, and says whom it ended. Who is in neither came to its own end,
    with exit code 0. The ranks of a node follow each other: whose number is lower than a listed one's by no more than
    that one's local rank is on its node.
    """
    listed = said(job, "elastic.failure")
    failed = {number_of(event, "failed_rank") for event in listed}
    ended = {event.source for event in said(job, "elastic.closing")}
    found: list[LogEvent] = []
    for rank in ranks:
        of_its_agent = [event for event in listed if event.source not in ended and _beside(event, rank)]
        if rank in failed or not of_its_agent:
            return ()
        if of_its_agent[0] not in found:
            found.append(of_its_agent[0])
    return tuple(found)


def _beside(event: LogEvent, rank: int) -> bool:
    number, local = number_of(event, "failed_rank"), number_of(event, "local_rank")
    return number is not None and local is not None and number - local <= rank < number


def _homes(job: Job) -> Mapping[int, str]:
    """Node of each rank: where its process was, else the host in its lines, else the block of ranks that it is in."""
    homes = {event.rank: event.host for event in job.events if event.rank is not None and event.host}
    return homes | dict(home_of(job))


def _first(closed: Sequence[LogEvent]) -> list[LogEvent]:
    """The earliest of some words about lost connections; none where no time is known."""
    timed = [event for event in closed if event.at is not None]
    return sorted(timed, key=lambda event: event.at or 0.0)[:1]


def _named_nodes(job: Job, closed: Iterable[LogEvent]) -> set[str]:
    return nodes_of(job, (text_of(event, "peer") for event in closed))


def nodes_of(job: Job, addresses: Iterable[str]) -> set[str]:
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


def logs_read_to(job: Job) -> float:
    """What logs said until then is known, or will not be: by every node that reads any, as each may read another's.

    For more than ``UNREAD_S`` seconds nobody is waited for.
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


def was_read(job: Job, rank: Rank, until: float) -> bool:
    """Whether all that a rank wrote to its standard error by then is known: it is a file, which any node may read."""
    path = rank.process.stderr
    readers = [node for node in job.nodes.values() if _reads(node)]
    own = path.startswith("/") and not path.startswith("/dev/")
    return own and _reads(job.nodes[rank.node]) and min(map(_read_to, readers)) >= until


def _reads(node: Node) -> bool:
    logs = node.sources.get("logs")
    return node.link == "live" and logs is not None and logs.state == "ok"


def _read_to(node: Node) -> float:
    return -inf if node.logs_read is None else node.logs_read
