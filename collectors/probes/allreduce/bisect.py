"""The order in which pairs of nodes are measured, to isolate the bad node or link.

Up to :data:`FULL_TOURNAMENT` nodes every pair is measured once; above, neighbours, and then the suspects against nodes
that are well. A node that fails with two nodes that are well with others is not tried with a third: a failing pair
takes seconds, and a fourth failure proves no more than the second.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence

from collectors.probes.allreduce.plan import tournament
from collectors.samples.probes import ProbePair

FULL_TOURNAMENT = 8
"""Up to this many nodes every pair is measured."""
GOOD_PARTNERS = 2
"""Above it, nodes that are well against which each suspect is measured; as many failures are proof."""
SLOW_SHARE = 1 / 3
"""Share of the median under which a pair is slow."""
DOUBTFUL_SHARE = 1 / 2
"""Share of the median under which a pair is measured again, because the median may still rise."""
AMONG_THREE = 3
"""Pairs: among three nodes, one slow node makes two of three pairs slow, and the median with them."""
LOOKS = 2
"""Repeated measurements, at most."""

Pair = tuple[str, str]


class Bisection:
    """Measures pairs of nodes by ``measure``; the results are in ``pairs``."""

    def __init__(
        self, measure: Callable[[str, str], Awaitable[ProbePair]], progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self.pairs: dict[Pair, ProbePair] = {}
        self._measure = measure
        self._progress = progress

    async def run(self, names: tuple[str, ...], *, every: bool = False) -> None:
        """Measure until the bad node or link is isolated; with ``every``, all pairs."""
        every = every or len(names) <= FULL_TOURNAMENT
        rounds = tournament(names) if every else _neighbours(names)
        for number, pairs in enumerate(rounds, start=1):
            given_up = self.given_up()
            self._progress(f"pairs, round {number} of {len(rounds)}{_without(given_up)}")
            await self._at_once([pair for pair in pairs if not given_up & set(pair)])
        if not every:
            await self._suspects(names)
        await self._second_look()

    def given_up(self) -> set[str]:
        """Nodes without a good pair that failed with enough nodes that have one."""
        good = {name for key, pair in self.pairs.items() if pair.busbw is not None for name in key}
        failures: dict[str, int] = {}
        for (a, b), pair in self.pairs.items():
            if pair.busbw is None:
                for name, other in ((a, b), (b, a)):
                    failures[name] = failures.get(name, 0) + (other in good)
        return {name for name, count in failures.items() if count >= GOOD_PARTNERS and name not in good}

    async def _suspects(self, names: tuple[str, ...]) -> None:
        """Measure each node of a bad pair against good nodes, to tell which of the two is bad."""
        doubtful = sorted({name for pair in self._standing_out() for name in pair})
        good = [name for name in names if name not in doubtful]
        if not doubtful or not good:
            return
        for meeting in range(min(GOOD_PARTNERS, len(good))):
            self._progress(f"{len(doubtful)} suspects, each against a node that is well")
            for start in range(0, len(doubtful), len(good)):
                some = doubtful[start : start + len(good)]
                await self._at_once([(name, good[(i + meeting) % len(good)]) for i, name in enumerate(some)])

    async def _second_look(self) -> None:
        """Measure doubtful pairs again, each alone: one look proves nothing. The best of all looks counts.

        A node that stays slow with two others is not looked at a third time.
        """
        confirmed: dict[str, int] = {}
        for _ in range(LOOKS):
            doubtful = sorted(self._under(DOUBTFUL_SHARE), key=lambda key: self.pairs[key].busbw or 0.0)
            for a, b in doubtful:
                before = self.pairs[a, b]
                if max(confirmed.get(a, 0), confirmed.get(b, 0)) >= GOOD_PARTNERS:
                    continue
                self._progress(f"once more: {a} and {b}")
                again = await self._measure(a, b)
                better = again if (again.busbw or 0.0) > (before.busbw or 0.0) else before
                self.pairs[a, b] = better._replace(retransmitted=_mean(before.retransmitted, again.retransmitted))
                if (a, b) in self._under(SLOW_SHARE):
                    confirmed.update({a: confirmed.get(a, 0) + 1, b: confirmed.get(b, 0) + 1})

    def _usual(self) -> float:
        """The usual speed of a pair."""
        speeds = [pair.busbw for pair in self.pairs.values() if pair.busbw]
        if len(speeds) <= AMONG_THREE:
            return max(speeds, default=0.0)
        return statistics.median(speeds)

    def _under(self, share: float) -> list[Pair]:
        """Pairs that finished, under a share of the median."""
        least = self._usual() * share
        return [key for key, pair in self.pairs.items() if pair.busbw is not None and pair.busbw < least]

    def _standing_out(self) -> list[Pair]:
        """Pairs that failed, or are far slower than the others."""
        return [key for key, pair in self.pairs.items() if pair.busbw is None] + self._under(SLOW_SHARE)

    async def _at_once(self, pairs: Sequence[Pair]) -> None:
        fresh = [pair for pair in pairs if pair not in self.pairs and pair[::-1] not in self.pairs]
        for pair in await asyncio.gather(*(self._measure(a, b) for a, b in fresh)):
            self.pairs[pair.a, pair.b] = pair


def _neighbours(names: tuple[str, ...]) -> list[list[Pair]]:
    """A-B, C-D …, then B-C, D-E …; with an odd number the last one, whose nodes are both busy, comes third."""
    around = [(names[i], names[(i + 1) % len(names)]) for i in range(len(names))]
    even = len(names) - len(names) % 2
    return [pairs for pairs in (around[0:even:2], around[1:even:2], around[even:]) if pairs]


def _mean(*shares: float | None) -> float | None:
    """Mean of the known shares, so that one lucky measurement does not hide a loss."""
    known = [share for share in shares if share is not None]
    return statistics.fmean(known) if known else None


def _without(names: set[str]) -> str:
    return f", without {', '.join(sorted(names))}" if names else ""
