"""One round of a probe: a process group over some of the workers, and the collection of their reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from collectors.probes.allreduce.plan import ProbeNode
from collectors.probes.allreduce.workers import Worker, WorkerReport

GRACE = 3.0
"""Seconds that the others have to end a round in which one has failed."""
MOST_FIGURES, MOST_WAITING = 4096, 65536
"""Figures of a round that are kept, and reports that may wait to be processed: more are no honest worker's."""


class Seat(NamedTuple):
    """One rank of a round: the worker, and which of its local ranks."""

    worker: Worker
    local: int

    @property
    def node(self) -> ProbeNode:
        """The node it is on."""
        return self.worker.node


@dataclass(slots=True)
class RoundOutcome:
    """The result of one round, by rank within the round."""

    seats: Sequence[Seat]
    absent: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    """Rank → stage and error, as the rank said."""
    done: set[int] = field(default_factory=set)
    figures: list[WorkerReport] = field(default_factory=list)
    round_trip: float | None = None
    """Seconds of the smallest all_reduce."""
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
            return f"{self._nodes(self.absent)} did not come to the barrier"
        if self.failed:
            rank = min(self.failed)
            return f"{self.seats[rank].node.name}: {self.failed[rank]}"
        return f"{self._nodes(self.stuck)} did not finish" if self.stuck else ""

    def _nodes(self, ranks: set[int]) -> str:
        return ", ".join(sorted({self.seats[rank].node.name for rank in ranks}))

    def note(self, report: WorkerReport) -> None:
        """Add one report; ranks that the round does not have are ignored."""
        ranks = range(len(self.seats))
        match report.kind:
            case "done" if report.rank in ranks:
                self.done.add(report.rank)
            case "failed" if report.rank in ranks:
                self.failed[report.rank] = report.why
            case "absent":
                self.absent.update(rank for rank in report.ranks if rank in ranks)
            case "figure" if len(self.figures) < MOST_FIGURES:
                self.figures.append(report)
            case "latency":
                self.round_trip = report.seconds


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a round; times in seconds."""

    sizes: tuple[int, ...]
    barrier: float
    timeout: float
    deadline: float


class Rounds:
    """Runs rounds over a set of workers; several rounds may run at once as long as they share no seat."""

    def __init__(self) -> None:
        self._serial = 0
        self._open: dict[int, asyncio.Queue[tuple[str, WorkerReport]]] = {}

    def take(self, node: ProbeNode, report: WorkerReport) -> None:
        """Hand a worker's report to the round that it belongs to; the end of a worker concerns every open round."""
        queues = list(self._open.values()) if report.kind == "gone" else [self._open.get(report.id)]
        for queue in queues:
            if queue is not None and queue.qsize() < MOST_WAITING:
                queue.put_nowait((node.name, report))

    async def run(self, seats: Sequence[Seat], work: Work) -> RoundOutcome:
        """Run one round to its end, or to its deadline. The first seat is rank 0 and keeps the store."""
        self._serial += 1
        number = self._serial
        queue = self._open[number] = asyncio.Queue()
        outcome = RoundOutcome(tuple(seats))
        try:
            async with asyncio.timeout(work.deadline) as limit:
                await _drive(number, outcome, work, queue, limit)
        except TimeoutError:
            if not outcome.failed:  # else those who are left wait for somebody who has given up
                outcome.stuck = set(range(len(seats))) - outcome.done - outcome.absent
        finally:
            del self._open[number]
        return outcome


async def _drive(
    number: int, outcome: RoundOutcome, work: Work, queue: asyncio.Queue[tuple[str, WorkerReport]],
    limit: asyncio.Timeout,
) -> None:  # fmt: skip
    """Rank 0 first; the others once it has said where its store is; then all reports, until everybody has ended."""
    seats = outcome.seats
    _tell(number, seats, work, 0, range(1))
    told = False
    while len(outcome.done | outcome.absent | outcome.failed.keys()) < len(seats):
        name, report = await queue.get()
        if report.kind in ("gone", "failed"):
            limit.reschedule(min(limit.when() or inf, asyncio.get_running_loop().time() + GRACE))
        if report.kind == "store" and not told:
            told = True
            _tell(number, seats, work, report.port, range(1, len(seats)))
        elif report.kind == "gone":
            gone = {rank for rank, seat in enumerate(seats) if seat.node.name == name}
            outcome.failed.update(dict.fromkeys(gone - outcome.done, report.why))
            outcome.done |= gone
            if 0 in gone and not told:
                return
        else:
            outcome.note(report)
            if report.kind == "done" and report.rank == 0 and (outcome.absent or not told):
                return  # nobody else can get any further without the store


def _tell(number: int, seats: Sequence[Seat], work: Work, port: int, ranks: range) -> None:
    """Send the round to the workers of these ranks."""
    there = next((rank for rank, seat in enumerate(seats) if seat.node.name != seats[0].node.name), 0)
    two = len({seat.node.name for seat in seats}) == 2
    by_worker: dict[str, list[int]] = {}
    for rank in ranks:
        by_worker.setdefault(seats[rank].node.name, []).append(rank)
    for group in by_worker.values():
        seats[group[0]].worker.tell(
            {
                "id": number,
                "ranks": [[seats[rank].local, rank] for rank in group],
                "world": len(seats),
                "store": [seats[0].node.address, port],
                "reach": [there, seats[there].node.address] if two else [],
                "sizes": list(work.sizes),
                "barrier": work.barrier,
                "timeout": work.timeout,
            }
        )
