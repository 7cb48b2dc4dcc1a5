"""The order in which pairs of nodes are measured, to isolate the bad node or link.

Up to :data:`ALL_PAIRS` nodes, every pair is measured once. With more nodes, neighbours are measured, then each suspect
against good nodes. No node is in two pairs at once, so that simultaneous pairs do not share a node's link.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence

from collectors.samples.probes import PathFigure, ProbePair

ALL_PAIRS = 8
"""Most nodes of which every pair is measured."""
GOOD_PARTNERS = 2
"""With more nodes: number of good nodes against which each suspect is measured."""
SLOW_SHARE, DOUBTFUL_SHARE = 1 / 3, 1 / 2
"""Shares of the median below which a pair is slow, and below which it is measured again: the median may still rise."""
AMONG_THREE = 3
"""Number of pairs of three nodes: one slow node makes two of the three pairs slow, and so the median."""

Pair = tuple[str, str]


class Bisection:
    """Measures pairs of nodes with ``measure``; the results are in ``pairs``."""

    def __init__(
        self, measure: Callable[[str, str], Awaitable[ProbePair]], progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self.pairs: dict[Pair, ProbePair] = {}
        self._measure = measure
        self._progress = progress

    async def run(self, names: tuple[str, ...]) -> None:
        """Measure until the bad node or link is isolated."""
        few = len(names) <= ALL_PAIRS
        rounds = _tournament(names) if few else _neighbours(names)
        for number, pairs in enumerate(rounds, start=1):
            self._progress(f"pairs, round {number} of {len(rounds)}")
            await self._at_once(pairs)
        if not few:
            await self._suspects(names)
        for a, b in self._under(DOUBTFUL_SHARE):  # one measurement is no proof: pairs may have shared a link
            self._progress(f"once more: {a} and {b}")
            self.pairs[a, b] = max(self.pairs[a, b], await self._measure(a, b), key=lambda pair: pair.busbw or 0.0)

    async def _suspects(self, names: tuple[str, ...]) -> None:
        """Measure each node of a bad pair against good nodes, to find which node of the pair is bad."""
        failed = [key for key, pair in self.pairs.items() if pair.busbw is None]
        doubtful = sorted({name for pair in (*failed, *self._under(SLOW_SHARE)) for name in pair})
        good = [name for name in names if name not in doubtful]
        for meeting in range(min(GOOD_PARTNERS, len(good)) if doubtful else 0):
            self._progress(f"{len(doubtful)} suspects, each against a good node")
            for start in range(0, len(doubtful), len(good)):
                some = doubtful[start : start + len(good)]
                await self._at_once([(name, good[(i + meeting) % len(good)]) for i, name in enumerate(some)])

    def _under(self, share: float) -> list[Pair]:
        """Measured pairs below a share of the usual speed, the slowest first."""
        speeds = {key: pair.busbw for key, pair in self.pairs.items() if pair.busbw is not None}
        if not speeds:
            return []
        usual = max(speeds.values()) if len(speeds) <= AMONG_THREE else statistics.median(speeds.values())
        return sorted((key for key, speed in speeds.items() if speed < usual * share), key=speeds.__getitem__)

    async def _at_once(self, pairs: Sequence[Pair]) -> None:
        fresh = [pair for pair in pairs if pair not in self.pairs and pair[::-1] not in self.pairs]
        for pair in await asyncio.gather(*(self._measure(a, b) for a, b in fresh)):
            self.pairs[pair.a, pair.b] = pair


def _tournament(names: tuple[str, ...]) -> list[list[Pair]]:
    """Rounds in which every pair occurs once and no node occurs twice per round (the circle method)."""
    players: list[str | None] = [*names, *[None] * (len(names) % 2)]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def _neighbours(names: tuple[str, ...]) -> list[list[Pair]]:
    """A-B, C-D …, then B-C, D-E …; with an odd number of nodes, the last pair, whose nodes are busy, comes third."""
    around = [(names[i], names[(i + 1) % len(names)]) for i in range(len(names))]
    even = len(names) - len(names) % 2
    return [pairs for pairs in (around[0:even:2], around[1:even:2], around[even:]) if pairs]


def pair_of(*ways: PathFigure) -> ProbePair:
    """Both directions, there and back, as one pair: with the slower rate, and the higher share of retransmissions."""
    rates = [way.throughput / 1e9 for way in ways if way.throughput is not None]
    lost = max((way.retransmitted for way in ways if way.retransmitted is not None), default=None)
    errors = "; ".join(f"{way.a} to {way.b}: {way.error}" for way in ways if way.error)
    return ProbePair(ways[0].a, ways[0].b, min(rates) if len(rates) == len(ways) else None, lost, errors)
