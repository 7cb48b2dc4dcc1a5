"""One round of a probe: a process group over some of the workers, and the collection of their reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from collectors.probes.allreduce import reports
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.workers import Worker

GRACE = 3.0
"""Seconds that the others have to end a round in which one has failed; then they are forked anew for the next."""


MOST_FIGURES = 4096
"""Figures of a round that are kept."""
MOST_WAITING = 65536
"""Reports of a round that may wait to be processed; more are no honest worker's."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One rank of a round: the worker, and which of its local processes."""

    worker: Worker
    local: int

    @property
    def node(self) -> ProbeNode:
        """The node it is on."""
        return self.worker.node

    @property
    def place(self) -> tuple[str, int]:
        """Node and local process."""
        return self.node.name, self.local


@dataclass(slots=True)
class RoundOutcome:
    """The result of one round, by rank within the round."""

    seats: Sequence[Seat]
    absent: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    """Rank → stage and error, as the rank said."""
    done: set[int] = field(default_factory=set)
    figures: list[reports.Measured] = field(default_factory=list)
    latency: reports.Latency | None = None
    work: list[float] = field(default_factory=list)
    retransmitted: float | None = None
    """Largest share of segments that a rank's node sent again."""
    stuck: set[int] = field(default_factory=set)
    """Ranks that had not finished when the time was up."""

    @property
    def good(self) -> bool:
        """True when everybody came and nothing failed."""
        return not (self.absent or self.failed or self.stuck)

    @property
    def apart(self) -> bool:
        """True when a rank did not reach the store."""
        return bool(self.absent) or any(why.startswith(("store:", "barrier:")) for why in self.failed.values())

    def complaint(self) -> str:
        """One line on what went wrong; empty when nothing did."""
        if self.absent:
            names = sorted({self.seats[rank].node.name for rank in self.absent if rank < len(self.seats)})
            return f"{', '.join(names)} did not come to the barrier"
        if self.failed:
            rank = min(self.failed)
            return f"{self.seats[rank].node.name}: {self.failed[rank]}"
        if self.stuck:
            return f"{', '.join(sorted({self.seats[rank].node.name for rank in self.stuck}))} did not finish"
        return ""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a round; times in seconds."""

    operations: tuple[str, ...]
    sizes: tuple[int, ...]
    barrier: float
    timeout: float
    straggler_rounds: int = 0
    deadline: float = 120.0


class Rounds:
    """Runs rounds over a set of workers; several rounds may run at once as long as they share no seat."""

    def __init__(self, plan: ProbePlan) -> None:
        self._plan = plan
        self._serial = 0
        self._open: dict[int, asyncio.Queue[tuple[str, reports.WorkerReport]]] = {}
        self._hanging: set[tuple[str, int]] = set()
        """Node and local process of ranks that had not said that they were done when their round ended."""

    def take(self, node: ProbeNode, report: reports.WorkerReport) -> None:
        """Hand a worker's report to the round that it belongs to; the end of a worker concerns every open round."""
        if isinstance(report, reports.Gone):
            for queue in self._open.values():
                queue.put_nowait((node.name, report))
        elif (of_round := self._open.get(report.id)) is not None and of_round.qsize() < MOST_WAITING:
            of_round.put_nowait((node.name, report))

    async def run(self, seats: Sequence[Seat], work: Work) -> RoundOutcome:
        """Run one round to its end, or to its deadline. The first seat is rank 0 and keeps the store."""
        self._serial += 1
        number = self._serial
        queue = self._open[number] = asyncio.Queue()
        outcome = RoundOutcome(tuple(seats))
        try:
            async with asyncio.timeout(work.deadline) as limit:
                await self._drive(number, outcome, work, queue, limit)
        except TimeoutError:
            if not outcome.failed:  # else those who are left wait for somebody who has given up
                outcome.stuck = set(range(len(seats))) - outcome.done - outcome.absent
        finally:
            del self._open[number]
            self._hanging |= {seat.place for rank, seat in enumerate(seats) if rank not in outcome.done}
        return outcome

    async def _drive(
        self, number: int, outcome: RoundOutcome, work: Work, queue: asyncio.Queue[tuple[str, reports.WorkerReport]],
        limit: asyncio.Timeout,
    ) -> None:  # fmt: skip
        seats = outcome.seats
        self._tell(number, seats, work, 0, range(1))
        told = False
        while len(outcome.done | outcome.absent | outcome.failed.keys()) < len(seats):
            name, report = await queue.get()
            if isinstance(report, reports.StoreStarted) and not told:
                told = True
                self._tell(number, seats, work, report.port, range(1, len(seats)))
            elif isinstance(report, reports.Gone):
                _hurry(limit)
                gone = {rank for rank, seat in enumerate(seats) if seat.node.name == name}
                outcome.failed.update(dict.fromkeys(gone - outcome.done, report.why))
                outcome.done |= gone
                if 0 in gone and not told:
                    return
            else:
                if isinstance(report, reports.RankFailed):
                    _hurry(limit)
                _note(outcome, report)
                if isinstance(report, reports.Finished) and report.rank == 0 and (outcome.absent or not told):
                    return  # nobody else can get any further without the store

    def _tell(self, number: int, seats: Sequence[Seat], work: Work, port: int, ranks: range) -> None:
        host = seats[0].node.address
        by_worker: dict[str, list[tuple[int, Seat]]] = {}
        for rank in ranks:
            by_worker.setdefault(seats[rank].node.name, []).append((rank, seats[rank]))
        for group in by_worker.values():
            fresh = self._hanging & {seat.place for _, seat in group}
            self._hanging -= fresh
            group[0][1].worker.tell(
                {
                    "id": number,
                    "fresh": sorted(local for _, local in fresh),
                    "locals": [seat.local for _, seat in group],
                    "ranks": [rank for rank, _ in group],
                    "world": len(seats),
                    "store": [host, port],
                    "reach": _other_end(seats),
                    "ops": list(work.operations),
                    "sizes": list(work.sizes),
                    "barrier": work.barrier,
                    "timeout": work.timeout,
                    "budget": self._plan.budget,
                    "patience": self._plan.patience,
                    "stragglers": work.straggler_rounds,
                }
            )


def _other_end(seats: Sequence[Seat]) -> list[int | str]:
    """Rank and address that rank 0 must reach in a round of two nodes; nothing in any other."""
    if len({seat.node.name for seat in seats}) != 2:
        return []
    rank = next(rank for rank, seat in enumerate(seats) if seat.node.name != seats[0].node.name)
    return [rank, seats[rank].node.address]


def _hurry(limit: asyncio.Timeout) -> None:
    """Shorten the deadline, because a rank has failed."""
    limit.reschedule(min(limit.when() or inf, asyncio.get_running_loop().time() + GRACE))


def _note(outcome: RoundOutcome, report: reports.WorkerReport) -> None:
    """Add one report; ranks that the round does not have are ignored."""
    ranks = range(len(outcome.seats))
    match report:
        case reports.Finished(rank=rank) if rank in ranks:
            outcome.done.add(rank)
            if report.segments > 0:
                share = report.retransmitted / report.segments
                outcome.retransmitted = max(share, outcome.retransmitted or 0.0)
        case reports.RankFailed(rank=rank) if rank in ranks:
            outcome.failed[rank] = f"{report.stage}: {report.why}"
        case reports.MissingRanks():
            outcome.absent.update(rank for rank in report.ranks if rank in ranks)
        case reports.Measured() if len(outcome.figures) < MOST_FIGURES:
            outcome.figures.append(report)
        case reports.Latency():
            outcome.latency = report
        case reports.Equal():
            outcome.work = report.seconds[: len(ranks)]
