"""From a node that stands out to its GPU or port: each is measured alone against those of a node that is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from collectors.probes.allreduce.bisect import Bisection, Culprit
from collectors.probes.allreduce.pairing import Pairing
from collectors.probes.allreduce.plan import ProbePlan
from collectors.probes.allreduce.ports import LocalPort, facing, used
from collectors.probes.allreduce.rounds import Seat
from collectors.probes.allreduce.workers import Worker
from collectors.samples.probes import ProbePair


class Narrowing:
    """Measures GPUs and ports; what it found is in ``by_gpu`` and ``by_port``, what it left out in ``untried``.

    GPUs are measured all at once, since each has its own way out of the node; ports one after another, through one GPU
    that is well. All together may take the plan's ``narrow_time``.
    """

    def __init__(
        self, plan: ProbePlan, workers: Mapping[str, Worker], pairing: Pairing, progress: Callable[[str], None]
    ) -> None:
        self.untried: list[str] = []
        self._plan = plan
        self._pairing = pairing
        self._progress = progress
        self._seats = {
            worker.node.part(local): Seat(worker, local)
            for worker in workers.values()
            for local in range(plan.locals_of(worker.node))
        }
        self._bound: dict[str, Seat] = {}
        """Seat by the name of the port that it is bound to."""
        self._nodes = {node.name: node for node in plan.nodes}
        self._gpus: list[Bisection] = []
        self._ports: list[Bisection] = []

    @property
    def by_gpu(self) -> list[ProbePair]:
        """Pairs of GPUs, or of local ranks."""
        return sorted(chain.from_iterable(bisection.pairs.values() for bisection in self._gpus))

    @property
    def by_port(self) -> list[ProbePair]:
        """Pairs of ports."""
        return sorted(chain.from_iterable(bisection.pairs.values() for bisection in self._ports))

    async def run(
        self, names: Sequence[str], culprits: Sequence[Culprit], network: Mapping[str, dict[str, str]]
    ) -> None:
        """Look into the culprits; where there is one node, or two of which neither stands out, into their GPUs.

        ``network`` is what NCCL said of its way, by node.
        """
        limit = self._plan.narrow_time
        at_hand = list(culprits)
        try:
            async with asyncio.timeout(limit):
                if len(names) == 1:
                    await self._inside(names[0])
                elif len(names) == 2 and not culprits:
                    await self._undecided(names[0], names[1], network)
                while at_hand:
                    culprit = at_hand[0]
                    await self._gpus_of(culprit)
                    await self._ports_of(culprit, network)
                    at_hand.pop(0)
        except TimeoutError:
            left = ", ".join(culprit.node for culprit in at_hand) or " and ".join(names)
            self.untried.append(f"{left}: not all GPUs and ports could be tried within {limit:.0f} s")

    async def _undecided(self, a: str, b: str, network: Mapping[str, dict[str, str]]) -> None:
        """Two nodes have nobody to be compared with, but their GPUs have each other; ports only if that is wished."""
        both = Culprit(b, a, settled=False)
        await self._gpus_of(both)
        if self._plan.bisect == "always":
            await self._ports_of(both, network)

    # --- GPUs ----------------------------------------------------------------------------------------------------

    def _parts(self, node: str) -> list[str]:
        return [part for part, seat in self._seats.items() if seat.node.name == node]

    async def _inside(self, node: str) -> None:
        """Every GPU of one node with every other; two have nothing to be compared with."""
        parts = self._parts(node)
        if len(parts) > 2:
            await self._bisection(self._gpus, self._seats).run(tuple(parts), every=True)

    async def _gpus_of(self, culprit: Culprit) -> None:
        mine, others = self._parts(culprit.node), self._parts(culprit.partner)
        if len(mine) < 2:
            return
        pairs = list(zip(others, mine, strict=False))
        if len(pairs) < len(mine):
            self.untried.append(f"{', '.join(mine[len(pairs) :])}: {culprit.partner} has no GPU left to face them")
        await self._bisection(self._gpus, self._seats).across(pairs, at_once=True, crossed=not culprit.settled)

    # --- ports ---------------------------------------------------------------------------------------------------

    async def _ports_of(self, culprit: Culprit, network: Mapping[str, dict[str, str]]) -> None:
        mine, others = (
            used(self._nodes[name].ports, self._plan.backend, network.get(name, {}))
            for name in (culprit.node, culprit.partner)
        )
        faced = facing(mine, others)
        alone = [port.name for port in mine if port not in [port for port, _ in faced]]
        if alone and len(mine) > 1:
            self.untried.append(f"{culprit.node}: {culprit.partner} has nothing in the network of {', '.join(alone)}")
        if len(faced) < 2:
            return
        pairs = [(self._bind(culprit.partner, other), self._bind(culprit.node, port)) for port, other in faced]
        one_network = len({port.network for pair in faced for port in pair}) == 1
        await self._bisection(self._ports, self._bound).across(
            pairs, at_once=False, crossed=one_network and not culprit.settled
        )

    def _bind(self, node: str, port: LocalPort) -> str:
        """Name of the port; its seat is that of the node's first GPU which no bad pair names."""
        bad = {name for bisection in self._gpus for pair in bisection.standing_out() for name in pair}
        parts = self._parts(node)
        seat = self._seats[next((part for part in parts if part not in bad), parts[0])]
        name = f"{node}:{port.name}"
        self._bound[name] = Seat(seat.worker, seat.local, port)
        return name

    # --- both ----------------------------------------------------------------------------------------------------

    def _bisection(self, kept: list[Bisection], seats: Mapping[str, Seat]) -> Bisection:
        async def measure(a: str, b: str) -> ProbePair:
            return await self._pairing.measure(a, b, [seats[a]], [seats[b]])

        kept.append(Bisection(measure, self._progress))
        return kept[-1]
