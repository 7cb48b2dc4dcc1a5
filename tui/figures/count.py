"""The job in numbers: nodes that answer, ranks that live, and who has not responded for longest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import NamedTuple

from hangtop.session.state.job_state import NodeState, RankState


@dataclass(frozen=True, slots=True)
class Count:
    """The job in numbers."""

    nodes: int
    nodes_up: int
    nodes_asking: int
    """Still connecting for the first time."""
    ranks: int
    ranks_alive: int
    """That live as far as is known: ranks of nodes that do not respond are not among them."""
    ranks_unheard: int
    """That lived when their node was last heard, which is too long ago."""
    world_size: int | None
    oldest: float | None
    """Seconds since the node that has not responded for longest was heard; None before any was heard."""
    oldest_node: str


class KnownRanks(NamedTuple):
    """What all ranks together tell."""

    numbers: int
    """Different ranks."""
    alive: int
    """Different ranks that live, as far as one knows."""
    world_size: int | None


def counted(nodes: Iterable[NodeState], known: KnownRanks, stale: Callable[[NodeState], bool], now: float) -> Count:
    """Count; ``stale`` tells which nodes' numbers are old."""
    oldest, oldest_node, up, asking, unheard, every = None, "", 0, 0, 0, 0
    for node in nodes:
        every += 1
        up += node.link in {"live", "limited", "offline"}
        asking += node.link == "connecting" and node.seen_at is None
        if node.ranks and stale(node):
            unheard += len(with_a_number({rank.process.rank for rank in alive_on(node).values()}))
        heard = node.seen_at
        if heard is not None and (oldest is None or heard < oldest):
            oldest, oldest_node = heard, node.name
    return Count(
        nodes=every,
        nodes_up=up,
        nodes_asking=asking,
        ranks=known.numbers,
        ranks_alive=max(0, known.alive - unheard),
        ranks_unheard=min(unheard, known.alive),
        world_size=known.world_size,
        oldest=None if oldest is None else max(0.0, now - oldest),
        oldest_node=oldest_node,
    )


def alive_on(node: NodeState) -> dict[int, RankState]:
    """Living processes of ranks on a node, by pid."""
    return {pid: rank for pid, rank in node.ranks.items() if rank.gone_at is None}


def with_a_number(numbers: Set[int]) -> Set[int]:
    """Ranks that are counted: those with a number, as the size of the job counts them; where there is none, all."""
    if min(numbers, default=0) >= 0:
        return numbers
    return {number for number in numbers if number >= 0} or numbers
