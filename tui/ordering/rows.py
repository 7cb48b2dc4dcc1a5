"""Rows of nodes, ranks and GPUs in order, the job in numbers, and sorting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from hangtop.diagnosis.evidence.gpus import given_gpu
from hangtop.diagnosis.node import Gpu, Node, Rank
from hangtop.diagnosis.roster import reported_size
from hangtop.session.job_selection import select_job
from tui.ordering.filter import Value

R = TypeVar("R")


class RankRow(NamedTuple):
    """One rank's process and its node."""

    node: Node
    rank: Rank

    @property
    def number(self) -> int:
        """Global rank."""
        return self.rank.process.rank


class GpuRow(NamedTuple):
    """One GPU and its node."""

    node: Node
    gpu: Gpu


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows in order; made anew only when one appears or ends."""

    roster: int = -1
    nodes: tuple[Node, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    """Every living process of a rank, and the last process of a rank without one; sorted by rank."""
    gpus: tuple[GpuRow, ...] = ()
    numbers: int = 0
    """Number of distinct ranks."""
    alive: int = 0
    """Number of distinct living ranks."""
    world_size: int | None = None
    unrelated: frozenset[tuple[str, int]] = frozenset()
    """Node and pid of processes outside the job; they are in the list, but not counted."""


def rows_of(roster: int, nodes: tuple[Node, ...], unrelated: frozenset[tuple[str, int]]) -> Rows:
    """All rows of these nodes, which are in order."""
    rows = [RankRow(node, rank) for node in nodes for rank in node.ranks.values()]
    alive = [row for row in rows if row.rank.gone_at is None]
    own = [row for row in alive if (row.node.name, row.rank.process.pid) not in unrelated] if unrelated else alive
    here = {row.number for row in own}
    of_job = {id(rank) for rank in select_job(row.rank for row in rows).ranks} if len(alive) < len(rows) else set()
    over = [row for row in rows if row.rank.gone_at is not None and row.number not in here and id(row.rank) in of_job]
    return Rows(
        roster,
        nodes,
        tuple(sorted([*alive, *over], key=lambda row: row.number)),
        tuple(GpuRow(node, gpu) for node in nodes for gpu in node.gpus.values()),
        len(with_a_number(here | {row.number for row in over})),
        len(with_a_number(here)),
        reported_size([row.rank.process.world_size for row in (*own, *over)]),
        unrelated,
    )


@dataclass(frozen=True, slots=True)
class Count:
    """The job in numbers."""

    nodes: int
    nodes_up: int
    ranks: int
    ranks_alive: int
    """Living ranks, without those on nodes that do not respond."""
    ranks_unheard: int
    """Ranks that lived in the last sample of a node that does not respond."""
    world_size: int | None
    oldest: float | None
    """Seconds since the last sample of the node that is silent for longest; None before any sample."""
    oldest_node: str


def counted(rows: Rows, stale: Callable[[Node], bool], now: float) -> Count:
    """Count the job; ``stale`` is true for nodes with old values."""
    silent = (node for node in rows.nodes if node.ranks and stale(node))
    unheard = sum(len(with_a_number({rank.process.rank for rank in alive_on(node).values()})) for node in silent)
    heard, oldest = min(
        ((node.seen_at, node.name) for node in rows.nodes if node.seen_at is not None), default=(None, "")
    )
    return Count(
        nodes=len(rows.nodes),
        nodes_up=sum(node.readable for node in rows.nodes),
        ranks=rows.numbers,
        ranks_alive=max(0, rows.alive - unheard),
        ranks_unheard=min(unheard, rows.alive),
        world_size=rows.world_size,
        oldest=None if heard is None else max(0.0, now - heard),
        oldest_node=oldest,
    )


def alive_on(node: Node) -> dict[int, Rank]:
    """Living processes of ranks on a node, by pid."""
    return {pid: rank for pid, rank in node.ranks.items() if rank.gone_at is None}


def with_a_number(numbers: Set[int]) -> Set[int]:
    """The known rank numbers; without any, all, so that processes without a number are counted."""
    return {number for number in numbers if number >= 0} or numbers


def owners_of(node: Node) -> list[tuple[Gpu, list[Rank]]]:
    """The living ranks on each GPU; if the driver lists no process, by the ranks' environment."""
    alive, users = alive_on(node), node.gpu_users()
    if not any(gpu.processes for gpu in node.gpus.values()):
        users = {pid: (given,) for pid, rank in alive.items() if (given := given_gpu(rank.process)) is not None}
    return [
        (gpu, [rank for pid, rank in alive.items() if gpu.index in users.get(pid, ())]) for gpu in node.gpus.values()
    ]


def ranks_on_node(node: Node) -> set[int]:
    """Living ranks of a node."""
    return {rank.process.rank for rank in alive_on(node).values()}


# --- order -------------------------------------------------------------------------------------------------------


def ordered(rows: Iterable[R], value: Callable[[R], Value], *, reverse: bool = False) -> list[R]:
    """Sort by value, stably: numbers before words, unknown values last in both directions."""
    numbers: list[tuple[float, R]] = []
    words: list[tuple[tuple[str | int, ...], R]] = []
    unknown: list[R] = []
    for row in rows:
        found = value(row)
        if found is None:
            unknown.append(row)
        elif isinstance(found, str):
            words.append((natural(found), row))
        else:
            numbers.append((found, row))
    numbers.sort(key=lambda pair: pair[0], reverse=reverse)
    words.sort(key=lambda pair: pair[0], reverse=reverse)
    return [row for _, row in numbers] + [row for _, row in words] + unknown


@lru_cache(65_536)
def natural(text: str) -> tuple[str | int, ...]:
    """Sort key of a name: ``node9`` before ``node10``. Words and numbers alternate, so all keys are comparable."""
    return tuple(int(part) if place % 2 else part.lower() for place, part in enumerate(re.split(r"(\d{1,18})", text)))
