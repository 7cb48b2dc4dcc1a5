"""Two names that lead to one machine: what runs there is told by both, and is there once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hangtop.diagnosis.job import Node, Rank
from hangtop.diagnosis.yielding import paced

CLOCKS_S = 2.0
"""Seconds by which one process may seem to have been started apart: each name's clock is measured by itself."""


class OnceTold(NamedTuple):
    """Ranks of all nodes, each once, and which names lead to a machine that has another name here."""

    ranks: list[Rank]
    also: Mapping[str, str]
    """Name → the first name of the same machine."""


def told_once(nodes: Mapping[str, tuple[Node, tuple[Rank, ...]]]) -> OnceTold:
    """Leave out what a second name of a machine tells.

    Containers of one machine, too, have its boot id: one machine are names behind which one host name is found and one
    process of one rank.
    """
    first: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, (node, ranks) in paced(nodes.items()):
        if ranks and node.hello is not None and node.hello.boot_id:
            first[node.hello.boot_id, node.hello.hostname].append(name)
    also: dict[str, str] = {}
    for names in first.values():
        also.update(_alike(names, nodes) if len(names) > 1 else ())
    return OnceTold([rank for name, (_, ranks) in nodes.items() if name not in also for rank in ranks], also)


def _alike(names: list[str], nodes: Mapping[str, tuple[Node, tuple[Rank, ...]]]) -> Iterator[tuple[str, str]]:
    """Names among these behind which a process is that an earlier one has told."""
    known: dict[tuple[int, int], tuple[str, float]] = {}
    for name in names:
        living = [rank for rank in nodes[name][1] if rank.gone_at is None and rank.rank >= 0]
        for rank in living:
            before = known.get((rank.rank, rank.process.pid))
            if before is not None and abs(before[1] - rank.process.started) < CLOCKS_S:
                yield name, before[0]
                break
        else:
            known.update({(rank.rank, rank.process.pid): (name, rank.process.started) for rank in living})
