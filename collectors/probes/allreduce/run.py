"""The whole probe: start the workers, measure all together, then pairs until the bad node or link stands alone."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping

from collectors.fleet.transport import Transport
from collectors.probes.allreduce.figures import bandwidths
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan, tournament
from collectors.probes.allreduce.rounds import Outcome, Rounds, Seat, Work
from collectors.probes.allreduce.workers import Report, Worker
from collectors.samples import ProbeFigure, ProbePair, ProbeRank, ProbeReport

PAIR_SIZES = (1 << 16, 1 << 20)
PAIR_BARRIER = 3.0
PAIR_TIMEOUT = 5.0
PAIR_DEADLINE = 12.0
FULL_TOURNAMENT = 8
"""Up to this many nodes every pair is measured; above, two rounds find the suspects, who then meet the others."""

Progress = Callable[[str], None]


class AllreduceProbe:
    """One run. ``transports`` are open connections by node; ``pythons`` the interpreter that starts things there."""

    def __init__(
        self,
        plan: ProbePlan,
        transports: Mapping[str, Transport],
        pythons: Mapping[str, str],
        progress: Progress = lambda _: None,
    ) -> None:
        self.plan = plan
        self._transports = transports
        self._pythons = pythons
        self._progress = progress
        self._rounds = Rounds(plan)
        self._workers = {node.name: Worker(node, self._take) for node in plan.nodes}
        self._ready: dict[str, asyncio.Event] = {node.name: asyncio.Event() for node in plan.nodes}
        self._pairs: dict[tuple[str, str], ProbePair] = {}
        self._network: dict[str, str] = {}

    def _take(self, node: ProbeNode, report: Report) -> None:
        kind, fields = report
        if kind == "no_torch":
            self._workers[node.name].error = f"{fields['python']} has no torch: {fields['why']}"
        if kind in ("ready", "no_torch", "ended"):
            self._ready[node.name].set()
        if kind == "ready" and fields.get("nccl"):
            self._network["version"] = str(fields["nccl"])
        self._rounds.take(node, report)

    async def run(self) -> ProbeReport:
        """Measure. Always returns a report, also when nothing worked; everything started is ended, also on cancel."""
        started, at = time.monotonic(), time.time()
        try:
            report = await self._measure(at)
        finally:
            await asyncio.gather(*(worker.stop() for worker in self._workers.values()))
        return report._replace(took=time.monotonic() - started)

    async def _measure(self, at: float) -> ProbeReport:
        self._progress(f"starting {self.plan.backend} on {len(self._workers)} nodes; importing torch there")
        await asyncio.gather(*(self._start(worker) for worker in self._workers.values()))
        present = [worker for worker in self._workers.values() if not worker.error]
        absent = [worker for worker in self._workers.values() if worker.error]
        whole: Outcome | None = None
        if len(present) * self.plan.locals_of(self.plan.nodes[0]) > 1:
            self._progress(f"all {len(present)} nodes together")
            whole = await self._rounds.run(self._seats(present), self._work())
        if self._must_bisect(whole, present):
            await self._bisect(present)
        return self._report(at, whole, absent)

    async def _start(self, worker: Worker) -> None:
        name = worker.node.name
        transport = self._transports.get(name)
        if transport is None:
            worker.error = "no connection to this node"
            return
        await worker.start(transport, self.plan, self._pythons.get(name, "python3"))
        try:
            await asyncio.wait_for(self._ready[name].wait(), self.plan.import_time)
        except TimeoutError:
            worker.error = f"torch was not imported within {self.plan.import_time:.0f} s"

    def _seats(self, workers: list[Worker]) -> list[Seat]:
        return [Seat(worker, local) for worker in workers for local in range(self.plan.locals_of(worker.node))]

    def _work(self) -> Work:
        plan = self.plan
        sizes = len(plan.sizes) * len(plan.operations)
        return Work(
            plan.operations,
            plan.sizes,
            plan.barrier,
            plan.timeout,
            plan.straggler_rounds,
            deadline=plan.barrier + 3 * plan.timeout + sizes * (3 * plan.budget + plan.patience),
        )

    # --- pairs ---------------------------------------------------------------------------------------------------

    def _must_bisect(self, whole: Outcome | None, present: list[Worker]) -> bool:
        if len(present) < 2 or self.plan.bisect == "never":
            return False
        return self.plan.bisect == "always" or whole is None or not whole.good or len(present) <= FULL_TOURNAMENT

    async def _bisect(self, present: list[Worker]) -> None:
        names = tuple(worker.node.name for worker in present)
        if len(names) <= FULL_TOURNAMENT:
            rounds = tournament(names)
        else:
            around = [(names[i], names[(i + 1) % len(names)]) for i in range(len(names))]
            rounds = [around[0 : len(names) - len(names) % 2 : 2], around[1::2]]
        for number, pairs in enumerate(rounds, start=1):
            self._progress(f"pairs, round {number} of {len(rounds)}")
            await self._pairs_at_once(pairs)
        if len(names) > FULL_TOURNAMENT:
            await self._suspects(names)
        await self._second_look()

    async def _second_look(self) -> None:
        """Measure slow pairs once more, each alone: one look proves nothing. The better of the two counts."""
        for a, b in self._bad_pairs():
            before = self._pairs[a, b]
            if before.busbw is None:
                continue
            self._progress(f"once more: {a} and {b}")
            again = await self._pair(a, b)
            if (again.busbw or 0.0) > before.busbw:
                self._pairs[a, b] = again

    async def _suspects(self, names: tuple[str, ...]) -> None:
        """Let every node of a bad pair meet nodes that are known to be good, to see whose fault the pair was."""
        bad = self._bad_pairs()
        doubtful = sorted({name for pair in bad for name in pair})
        good = [name for name in names if name not in doubtful][:2]
        for witness in good:
            self._progress(f"{len(doubtful)} suspects against {witness}")
            for name in doubtful:
                await self._pairs_at_once([(name, witness)])

    def _bad_pairs(self) -> list[tuple[str, str]]:
        speeds = [pair.busbw for pair in self._pairs.values() if pair.busbw]
        usual = statistics.median(speeds) if speeds else 0.0
        return [key for key, pair in self._pairs.items() if pair.busbw is None or pair.busbw < usual / 3]

    async def _pairs_at_once(self, pairs: list[tuple[str, str]]) -> None:
        fresh = [pair for pair in pairs if pair not in self._pairs and pair[::-1] not in self._pairs]
        for pair in await asyncio.gather(*(self._pair(a, b) for a, b in fresh)):
            self._pairs[pair.a, pair.b] = pair

    async def _pair(self, a: str, b: str) -> ProbePair:
        """Measure two nodes alone; when they do not meet, once more with the store on the other one."""
        work = Work(("all_reduce",), PAIR_SIZES, PAIR_BARRIER, PAIR_TIMEOUT, straggler_rounds=0, deadline=PAIR_DEADLINE)
        outcome = await self._rounds.run([Seat(self._workers[a], 0), Seat(self._workers[b], 0)], work)
        if not outcome.good:
            swapped = await self._rounds.run([Seat(self._workers[b], 0), Seat(self._workers[a], 0)], work)
            if swapped.good:
                return self._as_pair(a, b, swapped)._replace(
                    error=f"{b} cannot reach a port of {a}: {outcome.complaint()}"
                )
        return self._as_pair(a, b, outcome)

    @staticmethod
    def _as_pair(a: str, b: str, outcome: Outcome) -> ProbePair:
        speeds = [
            bandwidths(fields["op"], int(fields["bytes"]), float(fields["seconds"]), 2)[1] for fields in outcome.figures
        ]
        latency = outcome.latency
        return ProbePair(
            a,
            b,
            max(speeds) if speeds and outcome.good else None,
            latency["median_us"] / 1e6 if latency else None,
            latency["worst_us"] / 1e6 if latency else None,
            outcome.retransmitted,
            outcome.complaint(),
        )

    # --- report --------------------------------------------------------------------------------------------------

    def _report(self, at: float, whole: Outcome | None, absent: list[Worker]) -> ProbeReport:
        ranks: list[ProbeRank] = []
        if whole is not None:
            usual = statistics.median(whole.work) if whole.work else 0.0
            for rank, seat in enumerate(whole.seats):
                late = whole.work[rank] / usual if usual and rank < len(whole.work) else None
                state = (
                    "absent"
                    if rank in whole.absent
                    else "failed"
                    if rank in whole.failed | _all(whole.stuck)
                    else "done"
                )
                ranks.append(ProbeRank(rank, seat.node.name, state, whole.failed.get(rank, ""), late))
        ranks.extend(ProbeRank(-1, worker.node.name, "absent", worker.error, None) for worker in absent)
        good = whole is not None and whole.good and not absent
        world = len(whole.seats) if whole is not None else len(self._workers)
        return ProbeReport(
            backend=self.plan.backend,
            world_size=world,
            at=at,
            took=0.0,
            outcome="done" if good else "failed",
            why="" if good else self._why(whole, absent),
            ranks=ranks,
            figures=[self._figure(fields, world) for fields in whole.figures] if whole is not None else [],
            pairs=sorted(self._pairs.values()),
            round_trip=whole.latency["median_us"] / 1e6 if whole is not None and whole.latency else None,
            network=self._network,
        )

    @staticmethod
    def _why(whole: Outcome | None, absent: list[Worker]) -> str:
        if absent:
            return "; ".join(f"{worker.node.name}: {worker.error}" for worker in absent)
        return whole.complaint() if whole is not None else "a probe needs two ranks"

    @staticmethod
    def _figure(fields: dict[str, object], world: int) -> ProbeFigure:
        op, size, seconds = str(fields["op"]), int(str(fields["bytes"])), float(str(fields["seconds"]))
        algorithm, bus = bandwidths(op, size, seconds, world)
        wrong, odd = fields.get("wrong"), fields.get("odd")
        return ProbeFigure(
            op, size, seconds, algorithm, bus,
            list(wrong) if isinstance(wrong, list) else [], list(odd) if isinstance(odd, list) else [],
        )  # fmt: skip


def _all(ranks: set[int]) -> dict[int, str]:
    return dict.fromkeys(ranks, "did not finish")


def cancelled(plan: ProbePlan, at: float, took: float) -> ProbeReport:
    """Report of a probe that somebody stopped."""
    return ProbeReport(plan.backend, 0, at, took, "cancelled", "stopped on request", [], [], [], None, {})
