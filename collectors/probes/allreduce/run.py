"""One run of the all_reduce probe: all nodes together, then pairs of nodes to find the bad node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from collectors.fleet import payload
from collectors.probes.allreduce import nccl
from collectors.probes.allreduce.rounds import Round, Seat, Work
from collectors.probes.allreduce.worker import ENTRY, LAUNCH, ProbeNode, Worker
from collectors.probes.pairs import Bisection
from collectors.probes.remote.allreduce import WorkerReport
from collectors.probes.running import NodeAccess
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport

OP = "all_reduce"
WHOLE = 1
"""Number of the round of all nodes, always the first round."""


class Extent(NamedTuple):
    """The measurements with a backend: of all nodes together, and of a pair."""

    whole: Work
    pair: Work


EXTENTS = {
    "gloo": Extent(
        Work((1 << 20, 1 << 22, 1 << 24), barrier=5.0, timeout=8.0, deadline=38.0),
        Work((1 << 16, 1 << 20), barrier=3.0, timeout=8.0, deadline=12.0),
    ),
    "nccl": Extent(
        Work((1 << 20, 1 << 23, 1 << 26, 1 << 29), barrier=5.0, timeout=30.0, deadline=107.0),
        Work((1 << 20, 1 << 26), barrier=3.0, timeout=30.0, deadline=40.0),
    ),
}
"""NVLink and InfiniBand reach full speed only with hundreds of megabytes, and NCCL takes seconds to set up; over TCP a
megabyte is enough to find a slow link."""


class ProbePlan(NamedTuple):
    """Plan of one run: nodes, backend, interpreter."""

    nodes: tuple[ProbeNode, ...]
    backend: str = "gloo"
    python: str = ""
    """Interpreter with torch; empty: the interpreter of each node's rank."""

    @property
    def extent(self) -> Extent:
        """Sizes and limits for the backend."""
        return EXTENTS[self.backend]


def bandwidths(size: int, seconds: float, world: int) -> tuple[float, float]:
    """(algbw, busbw) of all_reduce in GB/s (1e9 bytes/s), as defined by nccl-tests (doc/PERFORMANCE.md).

    ``algbw`` is size over time. ``busbw`` is scaled so that it can be compared with the speed of one link, for any
    number of ranks.
    """
    algorithm = size / seconds / 1e9 if seconds > 0 else 0.0
    return algorithm, algorithm * 2.0 * (world - 1) / world if world > 1 else algorithm


def describe(plan: ProbePlan) -> str:
    """The remote commands, shown before a run."""
    borrowed = any(node.pid is not None for node in plan.nodes)
    python = plan.python or ("the interpreter and environment of a rank" if borrowed else "python3")
    where = "one process a GPU" if plan.backend == "nccl" else "one process a node, on CPU"
    worker = payload.shown(LAUNCH, f"{ENTRY}, backend={plan.backend}, {where}, with {python}", nice=False)
    if plan.backend != "nccl":
        return worker
    tests = nccl.describe(plan.extent.whole.sizes, max(node.ranks for node in plan.nodes))
    return f"{worker}; then, where a node has it: {tests}"


class AllreduceProbe:
    """One run; ``access``: nodes with open connections, by name."""

    def __init__(
        self, plan: ProbePlan, access: Mapping[str, NodeAccess], progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self._plan = plan
        self._access = access
        self._progress = progress
        self._workers = {node.name: Worker(node, self._take) for node in plan.nodes}
        self._bisection = Bisection(self._pair, progress)
        self._rounds: dict[int, Round] = {}
        """Rounds under way, by number; pairs without a common node run at the same time."""
        self._begun = 0

    def _take(self, node: ProbeNode, report: WorkerReport) -> None:
        """Pass a worker's report to its round; the end of a worker goes to every round."""
        if report.kind == "figure" and report.id == WHOLE and WHOLE in self._rounds:
            figure = _figure(report, len(self._rounds[WHOLE].seats))
            speed = f"{figure.seconds * 1e6:.0f} µs, busbw {figure.busbw:.3g} GB/s"
            self._progress(f"{OP} of {figure.size} bytes: {speed}")
        for number, round_ in list(self._rounds.items()):
            if report.kind == "gone" or report.id == number:
                round_.take(node, report)

    async def run(self) -> ProbeReport:
        """Measure. Always returns a report, even if nothing worked. Everything started is ended, also on cancel."""
        started, at = time.monotonic(), time.time()
        try:
            report = await self._measure(at)
        finally:
            for worker in self._workers.values():
                worker.stop()
        return report._replace(took=time.monotonic() - started)

    async def _measure(self, at: float) -> ProbeReport:
        plan = self._plan
        self._progress(f"starting {plan.backend} on {len(self._workers)} nodes; importing torch there")
        await asyncio.gather(
            *(worker.start(self._access.get(name), plan.backend, plan.python) for name, worker in self._workers.items())
        )
        present = [worker for worker in self._workers.values() if not worker.error]
        whole: Round | None = None
        if len(seats := _seats(present)) > 1:
            self._progress(f"all {len(present)} nodes together")
            whole = await self._round(seats, plan.extent.whole)
        # before the rounds of pairs push this log out of the buffer
        network = {name: nccl.network_of(bytes(worker.log)) for name, worker in self._workers.items() if worker.log}
        if len(present) > 1:
            await self._bisection.run(tuple(worker.node.name for worker in present))
        tests: list[NcclTest | None] = []
        if plan.backend == "nccl":
            self._progress("nccl-tests on each node")
            sizes, nodes = plan.extent.whole.sizes, [worker.node for worker in present]
            running = (nccl.run_nccl_tests(self._access[node.name], node, sizes) for node in nodes)
            tests = await asyncio.gather(*running)
        ranks = [] if whole is None else _ranks(whole)
        absent = {name: worker.error for name, worker in self._workers.items() if worker not in present}
        why = "; ".join(f"{name}: {error}" for name, error in absent.items())
        why = why or ("a probe needs two ranks" if whole is None else whole.complaint())
        world = len(ranks) or len(self._workers)
        return ProbeReport(
            plan.backend, world, at, 0.0, why,
            ranks=[*ranks, *(ProbeRank(-1, name, "absent", error) for name, error in absent.items())],
            figures=[] if whole is None else [_figure(report, world) for report in whole.figures],
            pairs=sorted(self._bisection.pairs.values()),
            network={name: found for name, found in network.items() if found},
            tested=[test for test in tests if test is not None],
        )  # fmt: skip

    async def _round(self, seats: list[Seat], work: Work) -> Round:
        self._begun += 1
        number = self._begun
        self._rounds[number] = round_ = Round(number, seats, work)
        try:
            await round_.run()
        finally:
            del self._rounds[number]
        return round_

    async def _pair(self, a: str, b: str) -> ProbePair:
        """Measure whether two nodes reach each other, then their speed together, each with all its ranks."""
        found = await self._round(_seats([self._workers[a], self._workers[b]]), self._plan.extent.pair)
        why = found.complaint()
        speeds = [_figure(report, len(found.seats)).busbw for report in found.figures]
        error = f"{b} cannot reach a port of {a}: {why}" if found.apart else why
        return ProbePair(a, b, max(speeds) if speeds and not why else None, None, error)


def _seats(workers: list[Worker]) -> list[Seat]:
    """Every rank of these workers."""
    return [Seat(worker, local) for worker in workers for local in range(worker.node.ranks)]


def _ranks(whole: Round) -> list[ProbeRank]:
    """The result of every rank."""
    found = []
    for rank, (worker, local) in enumerate(whole.seats):
        bad = rank in whole.failed or rank in whole.stuck
        state = "absent" if rank in whole.absent else "failed" if bad else "done"
        gpu = worker.node.gpus[local] if worker.node.gpus else None
        found.append(ProbeRank(rank, worker.node.name, state, whole.failed.get(rank, ""), gpu))
    return found


def _figure(report: WorkerReport, world: int) -> ProbeFigure:
    algorithm, bus = bandwidths(report.size, report.seconds, world)
    return ProbeFigure(OP, report.size, report.seconds, algorithm, bus, report.ranks)
