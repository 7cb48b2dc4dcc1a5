"""The whole collective probe: it starts the workers, measures all nodes together, then pairs to isolate the bad one."""

from __future__ import annotations

import asyncio
import shlex
import statistics
import time
from collections.abc import Callable, Mapping

from collectors.fleet.transport import Transport
from collectors.probes.allreduce import nccl_tests, reports
from collectors.probes.allreduce.bisect import Bisection
from collectors.probes.allreduce.nccl_log import network_of
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.rounds import RoundOutcome, Rounds, Seat, Work
from collectors.probes.allreduce.workers import Worker, launch_command
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport

PAIR_BARRIER = 3.0
"""Seconds in which two nodes must have met."""
WHOLE = 1
"""Number of the round of all nodes: always the first."""

LATE = 1.3
"""Time for equal work over the median, from which on it is looked at once more."""

Progress = Callable[[str], None]


def bandwidths(op: str, size: int, seconds: float, world: int) -> tuple[float, float]:
    """(algbw, busbw) in GB/s, 1e9 bytes a second, in the definitions of nccl-tests (its doc/PERFORMANCE.md).

    ``algbw`` is size over time. ``busbw`` multiplies it so that the figure is comparable with the speed of one link,
    whatever the number of ranks.
    """
    algorithm = size / seconds / 1e9 if seconds > 0 else 0.0
    share = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}.get(op)
    return algorithm, algorithm * (share * (world - 1) / world if share and world > 1 else 1.0)


def describe(plan: ProbePlan) -> str:
    """The exact remote commands, and what comes through their input, for the person who is asked."""
    borrowed = any(node.pid is not None for node in plan.nodes)
    python = plan.python or ("the interpreter and environment of a rank" if borrowed else "python3")
    where = "one process a GPU" if plan.backend == "nccl" else "one process a node, on CPU"
    if plan.ranks_per_node > 1 and plan.backend != "nccl":
        where = f"{plan.ranks_per_node} processes a node, on CPU"
    own = f"{shlex.join(launch_command())}  ({plan.backend} from memory: {where}, with {python})"
    if plan.backend != "nccl":
        return own
    gpus = max(node.gpus for node in plan.nodes)
    tests = (nccl_tests.describe(op, plan.sizes, gpus) for op in plan.operations)
    return f"{own}; then, where a node has them: {', '.join(tests)}"


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
        self._bisection = Bisection(self._pair, progress)
        self._network: dict[str, dict[str, str]] = {}
        self._tested: list[NcclTest] = []
        self._world = 0

    def _take(self, node: ProbeNode, report: reports.WorkerReport) -> None:
        if isinstance(report, reports.NoTorch):
            self._workers[node.name].error = f"{report.python} has no torch: {report.why}"
        if isinstance(report, reports.Ready | reports.NoTorch | reports.Gone):
            self._ready[node.name].set()
        if isinstance(report, reports.Ready) and report.nccl:
            self._network[node.name] = {"version": report.nccl}
        if isinstance(report, reports.Measured) and report.id == WHOLE:
            self._progress(self._figure_line(report))
        self._rounds.take(node, report)

    def _figure_line(self, measured: reports.Measured) -> str:
        figure = self._figure(measured, self._world)
        return f"{figure.op} of {figure.size} bytes: {figure.seconds * 1e6:.0f} µs, busbw {figure.busbw:.3g} GB/s"

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
        whole: RoundOutcome | None = None
        if len(present) * self.plan.locals_of(self.plan.nodes[0]) > 1:
            self._progress(f"all {len(present)} nodes together")
            seats = self._seats(present)
            self._world = len(seats)
            whole = await self._rounds.run(seats, self._work())
        self._read_logs()
        if len(present) > 1 and self.plan.bisect != "never":
            names = tuple(worker.node.name for worker in present)
            await self._bisection.run(names, every=self.plan.bisect == "always")
        if whole is not None and whole.good:
            await self._once_more_late(whole)
        if self.plan.backend == "nccl":
            await self._nccl_tests(present)
        return self._report(at, whole, absent)

    async def _once_more_late(self, whole: RoundOutcome) -> None:
        """Repeat the equal work when a rank was late; the better of the two results counts."""
        usual = statistics.median(whole.work) if whole.work else 0.0
        if max(whole.work, default=0.0) <= LATE * usual:
            return
        self._progress("equal work once more: somebody was late")
        plan = self.plan
        work = Work((), (), plan.barrier, plan.timeout, plan.straggler_rounds, deadline=plan.barrier + plan.timeout)
        again = await self._rounds.run(whole.seats, work)
        if again.good and len(again.work) == len(whole.work):
            then = statistics.median(again.work) or usual
            whole.work = [min(a / usual, b / then) * usual for a, b in zip(whole.work, again.work, strict=True)]

    def _read_logs(self) -> None:
        """Read NCCL's log of the round of all nodes, before the pairs' rounds push it out of the buffer."""
        for name, worker in self._workers.items():
            said = network_of(bytes(worker.log))
            if said:
                self._network[name] = {**self._network.get(name, {}), **said}

    async def _nccl_tests(self, present: list[Worker]) -> None:
        """The same collectives by nccl-tests, on every node that has them, by itself."""
        nodes = [worker.node for worker in present if worker.node.name in self._transports]
        for op in self.plan.operations:
            self._progress(f"nccl-tests on each node: {op}")
            found = await asyncio.gather(
                *(
                    nccl_tests.run(
                        self._transports[node.name], node, op, self.plan.sizes, self._pythons.get(node.name, "python3")
                    )
                    for node in nodes
                )
            )
            self._tested += [test for test in found if test is not None]

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

    async def _pair(self, a: str, b: str) -> ProbePair:
        """Measure whether two nodes reach each other, then what they reach together, each with all its ranks."""
        plan = self.plan
        work = Work(("all_reduce",), plan.pair_sizes, PAIR_BARRIER, plan.pair_timeout, deadline=plan.pair_deadline)
        outcome = await self._rounds.run(self._seats([self._workers[a], self._workers[b]]), work)
        world, why = len(outcome.seats), outcome.complaint()
        speeds = [bandwidths(found.op, found.bytes, found.seconds, world)[1] for found in outcome.figures]
        return ProbePair(
            a, b, max(speeds) if speeds and outcome.good else None,
            outcome.latency.median_us / 1e6 if outcome.latency else None, outcome.retransmitted,
            f"{b} cannot reach a port of {a}: {why}" if outcome.apart else why,
        )  # fmt: skip

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

    # --- report --------------------------------------------------------------------------------------------------

    def _report(self, at: float, whole: RoundOutcome | None, absent: list[Worker]) -> ProbeReport:
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
                gpu = seat.node.gpu(seat.local) if self.plan.backend == "nccl" else None
                ranks.append(ProbeRank(rank, seat.node.name, state, whole.failed.get(rank, ""), late, gpu))
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
            figures=[self._figure(measured, world) for measured in whole.figures] if whole is not None else [],
            pairs=sorted(self._bisection.pairs.values()),
            round_trip=whole.latency.median_us / 1e6 if whole is not None and whole.latency else None,
            network=self._network,
            tested=self._tested,
        )

    @staticmethod
    def _why(whole: RoundOutcome | None, absent: list[Worker]) -> str:
        if absent:
            return "; ".join(f"{worker.node.name}: {worker.error}" for worker in absent)
        return whole.complaint() if whole is not None else "a probe needs two ranks"

    @staticmethod
    def _figure(measured: reports.Measured, world: int) -> ProbeFigure:
        algorithm, bus = bandwidths(measured.op, measured.bytes, measured.seconds, world)
        return ProbeFigure(measured.op, measured.bytes, measured.seconds, algorithm, bus, measured.wrong, measured.odd)


def _all(ranks: set[int]) -> dict[int, str]:
    return dict.fromkeys(ranks, "did not finish")


def cancelled(plan: ProbePlan, at: float, took: float) -> ProbeReport:
    """Report of a probe that somebody stopped."""
    return ProbeReport(plan.backend, 0, at, took, "cancelled", "stopped on request", [], [], [], None, {})
