"""Who ended, where the rank itself says nothing.

By elimination over the ranks that speak, and by the addresses that those name who lost it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import home_of, world_or_logged
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.exits import came_to_their_end
from hangtop.diagnosis.witnesses.messages import ranks_in, said


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
