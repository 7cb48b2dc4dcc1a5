"""What there is, in order: rows of ranks, GPUs and ports, made anew only where something appeared or ended."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from hangtop.diagnosis.roster import told_size
from hangtop.session.job_selection import earlier_runs, run_key
from hangtop.session.state.job_state import GpuState, NodeState, PortState, RankState
from tui.figures.count import with_a_number


class RankRow(NamedTuple):
    """One rank's process and its node."""

    node: NodeState
    rank: RankState

    @property
    def number(self) -> int:
        """Global rank."""
        return self.rank.process.rank


class GpuRow(NamedTuple):
    """One GPU and its node."""

    node: NodeState
    gpu: GpuState


class PortRow(NamedTuple):
    """One HCA port and its node."""

    node: NodeState
    name: str
    port: PortState


class Lists(NamedTuple):
    """What there is, in order; made anew only when something appears or ends."""

    roster: int
    nodes: list[NodeState]
    ranks: list[RankRow]
    """Every living process of a rank, and the last one of a rank that has none; by rank."""
    gpus: list[GpuRow]
    ports: list[PortRow]
    numbers: int
    """Different ranks."""
    alive: int
    """Different ranks that live."""
    world_size: int | None
    strangers: frozenset[tuple[str, int]]
    """Who was known not to be of the job: their processes are in the list, and not counted."""


NOTHING = Lists(-1, [], [], [], [], 0, 0, None, frozenset())


class NodeRows(NamedTuple):
    """What there is on one node."""

    roster: int
    alive: list[RankRow]
    ended: list[RankRow]
    gpus: list[GpuRow]
    ports: list[PortRow]
    numbers: list[int]
    """Of the living."""
    sizes: list[int | None]
    """Of their job, as they say."""


def rows_of(node: NodeState) -> NodeRows:
    """What is on one node."""
    rows = [RankRow(node, rank) for rank in node.ranks.values()]
    alive = [row for row in rows if row.rank.gone_at is None]
    return NodeRows(
        node.roster,
        alive,
        [row for row in rows if row.rank.gone_at is not None],
        [GpuRow(node, gpu) for gpu in node.gpus.values()],
        [PortRow(node, name, port) for name, port in node.ports.items()],
        [row.rank.process.rank for row in alive],
        [row.rank.process.world_size for row in alive],
    )


_NUMBER = attrgetter("rank.process.rank")


def lists_of(
    roster: int, nodes: list[NodeState], parts: list[NodeRows], strangers: frozenset[tuple[str, int]]
) -> Lists:
    """All lists of nodes in their order, each with its part."""
    # While thousands of nodes come, this is done once a tick.
    alive = list(chain.from_iterable([part.alive for part in parts]))
    ended: dict[int, RankRow] = {}
    for part in parts:
        for row in part.ended:
            if (known := ended.get(row.number)) is None or known.rank.process.started < row.rank.process.started:
                ended[row.number] = row
    if strangers:
        own = [row for row in alive if (row.node.name, row.rank.process.pid) not in strangers]
        numbers, sizes = [row.number for row in own], [row.rank.process.world_size for row in own]
    else:
        numbers = list(chain.from_iterable([part.numbers for part in parts]))
        sizes = list(chain.from_iterable([part.sizes for part in parts]))
    here = set(numbers)
    if ended:
        gone = [row.rank for row in ended.values()]
        runs = earlier_runs(gone, [row.rank.process for row in alive])
        ended = {number: row for number, row in ended.items() if run_key(row.rank.process) not in runs}
    over = [row for number, row in ended.items() if number not in here]
    ranks = alive + over
    ranks.sort(key=_NUMBER)
    counted = len(with_a_number(here))
    return Lists(
        roster,
        nodes,
        ranks,
        list(chain.from_iterable([part.gpus for part in parts])),
        list(chain.from_iterable([part.ports for part in parts])),
        len(with_a_number(here | ended.keys())) if ended else counted,
        counted,
        told_size([*sizes, *(row.rank.process.world_size for row in over)]),
        strangers,
    )
