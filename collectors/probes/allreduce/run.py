"""The whole all_reduce probe: it starts the workers, measures all nodes together, then pairs to isolate the bad one."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.allreduce import nccl
from collectors.probes.allreduce.bisect import Bisection
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.rounds import RoundOutcome, Rounds, Seat, Work
from collectors.probes.allreduce.workers import Worker, WorkerReport
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport

OP = "all_reduce"
PAIR_BARRIER = 3.0
"""Seconds in which two nodes must have met."""
WHOLE = 1
"""Number of the round of all nodes: always the first."""
EACH_SIZE = 3.0
"""Seconds that one size may take."""

Progress = Callable[[str], None]


def bandwidths(size: int, seconds: float, world: int) -> tuple[float, float]:
    """(algbw, busbw) of all_reduce in GB/s, 1e9 bytes a second, as nccl-tests define them (its doc/PERFORMANCE.md).

    ``algbw`` is size over time. ``busbw`` multiplies it so that the figure is comparable with the speed of one link,
    whatever the number of ranks.
    """
    algorithm = size / seconds / 1e9 if seconds > 0 else 0.0
    return algorithm, algorithm * 2.0 * (world - 1) / world if world > 1 else algorithm


def describe(plan: ProbePlan) -> str:
    """The exact remote commands, and what comes through their input, for the person who is asked."""
    borrowed = any(node.pid is not None for node in plan.nodes)
    python = plan.python or ("the interpreter and environment of a rank" if borrowed else "python3")
    where = "one process a GPU" if plan.backend == "nccl" else "one process a node, on CPU"
    own = f"{shlex.join(payload.command(nice=False))}  ({plan.backend} from memory: {where}, with {python})"
    if plan.backend != "nccl":
        return own
    return f"{own}; then, where a node has it: {nccl.describe(plan.sizes, max(node.ranks for node in plan.nodes))}"


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
        self._rounds = Rounds()
        self._workers = {node.name: Worker(node, self._take) for node in plan.nodes}
        self._bisection = Bisection(self._pair, progress)
        self._network: dict[str, dict[str, str]] = {}
        self._tested: list[NcclTest] = []
        self._world = 0

    def _take(self, node: ProbeNode, report: WorkerReport) -> None:
        if report.kind == "ready" and report.nccl:
            self._network[node.name] = {"version": report.nccl}
        if report.kind == "figure" and report.id == WHOLE:
            figure = _figure(report, self._world)
            speed = f"{figure.seconds * 1e6:.0f} µs, busbw {figure.busbw:.3g} GB/s"
            self._progress(f"{OP} of {figure.size} bytes: {speed}")
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
        plan = self.plan
        self._progress(f"starting {plan.backend} on {len(self._workers)} nodes; importing torch there")
        await asyncio.gather(
            *(
                worker.start(self._transports.get(name), plan, self._pythons.get(name, "python3"))
                for name, worker in self._workers.items()
            )
        )
        absent = [worker for worker in self._workers.values() if worker.error]
        present = [worker for worker in self._workers.values() if not worker.error]
        whole: RoundOutcome | None = None
        if seats := _seats(present):
            self._progress(f"all {len(present)} nodes together")
            self._world = len(seats)
            deadline = plan.barrier + 3 * plan.timeout + EACH_SIZE * len(plan.sizes)
            whole = await self._rounds.run(seats, Work(plan.sizes, plan.barrier, plan.timeout, deadline))
        for name, worker in self._workers.items():  # before the pairs' rounds push the log out of the buffer
            if found := nccl.network_of(bytes(worker.log)):
                self._network[name] = {**self._network.get(name, {}), **found}
        if len(present) > 1:
            await self._bisection.run(tuple(worker.node.name for worker in present))
        if plan.backend == "nccl":
            self._progress("nccl-tests on each node")
            tests = await asyncio.gather(*(self._test(worker.node) for worker in present))
            self._tested = [test for test in tests if test is not None]
        return self._report(at, whole, absent)

    async def _test(self, node: ProbeNode) -> NcclTest | None:
        python = self._pythons.get(node.name, "python3")
        return await nccl.run_nccl_tests(self._transports[node.name], node, self.plan.sizes, python)

    async def _pair(self, a: str, b: str) -> ProbePair:
        """Measure whether two nodes reach each other, then what they reach together, each with all its ranks."""
        plan = self.plan
        work = Work(plan.pair_sizes, PAIR_BARRIER, plan.timeout, plan.pair_deadline)
        outcome = await self._rounds.run(_seats([self._workers[a], self._workers[b]]), work)
        why = outcome.complaint()
        speeds = [_figure(found, len(outcome.seats)).busbw for found in outcome.figures]
        return ProbePair(
            a, b, max(speeds) if speeds and outcome.good else None, outcome.round_trip, None,
            f"{b} cannot reach a port of {a}: {why}" if outcome.apart else why,
        )  # fmt: skip

    def _report(self, at: float, whole: RoundOutcome | None, absent: list[Worker]) -> ProbeReport:
        ranks: list[ProbeRank] = []
        if whole is not None:
            for rank, seat in enumerate(whole.seats):
                bad = rank in whole.failed or rank in whole.stuck
                state = "absent" if rank in whole.absent else "failed" if bad else "done"
                why, gpu = whole.failed.get(rank, ""), seat.node.gpu(seat.local)
                ranks.append(ProbeRank(rank, seat.node.name, state, why, gpu))
        ranks.extend(ProbeRank(-1, worker.node.name, "absent", worker.error) for worker in absent)
        why = "; ".join(f"{worker.node.name}: {worker.error}" for worker in absent)
        if not why:
            why = whole.complaint() if whole is not None else "a probe needs two ranks"
        world = len(whole.seats) if whole is not None else len(self._workers)
        return ProbeReport(
            backend=self.plan.backend,
            world_size=world,
            at=at,
            took=0.0,
            outcome="failed" if why else "done",
            why=why,
            ranks=ranks,
            figures=[_figure(report, world) for report in whole.figures] if whole is not None else [],
            pairs=sorted(self._bisection.pairs.values()),
            round_trip=whole.round_trip if whole is not None else None,
            network=self._network,
            tested=self._tested,
        )


def _seats(workers: list[Worker]) -> list[Seat]:
    """Every rank of these workers; none where that is but one."""
    seats = [Seat(worker, local) for worker in workers for local in range(worker.node.ranks)]
    return seats if len(seats) > 1 else []


def _figure(report: WorkerReport, world: int) -> ProbeFigure:
    algorithm, bus = bandwidths(report.size, report.seconds, world)
    return ProbeFigure(OP, report.size, report.seconds, algorithm, bus, report.wrong)


def cancelled(plan: ProbePlan, at: float, took: float) -> ProbeReport:
    """Report of a probe that somebody stopped."""
    return ProbeReport(plan.backend, 0, at, took, "cancelled", "stopped on request", [], [], [], None, {})
