"""One round of a probe: a process group over some of the workers, and their reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from collectors.probes.allreduce.worker import ProbeNode, Worker
from collectors.probes.remote.allreduce import WorkerReport

GRACE = 3.0
"""Seconds that the other ranks have to end a round after a rank has failed."""
MOST_FIGURES = 4096
"""Most figures kept of a round: no honest worker reports more."""


class Seat(NamedTuple):
    """One rank of a round: the worker and the local rank."""

    worker: Worker
    local: int

    @property
    def node(self) -> ProbeNode:
        """The node of the rank."""
        return self.worker.node


class Work(NamedTuple):
    """The work of a round; sizes in bytes, times in seconds."""

    sizes: tuple[int, ...]
    barrier: float
    """Time for all ranks to sign in at the store."""
    timeout: float
    """Time-out of one collective."""
    deadline: float
    """Limit of the whole round."""


class Round:
    """One process group. Its first seat is rank 0, which holds the store; results are by rank within the round."""

    def __init__(self, number: int, seats: Sequence[Seat], work: Work) -> None:
        self.seats = seats
        self.absent: set[int] = set()
        self.failed: dict[int, str] = {}
        """Rank → stage and error, from the rank's report."""
        self.stuck: set[int] = set()
        """Ranks that had not finished at the deadline."""
        self.figures: list[WorkerReport] = []
        self._number = number
        self._work = work
        self._done: set[int] = set()
        self._store_known = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Start rank 0, start the others once its store is known, and wait until all have ended or the deadline."""
        self._send(0, range(1))
        asyncio.get_running_loop().call_later(self._work.deadline, self._give_up)
        await self._over.wait()

    def _give_up(self) -> None:
        if not self.failed and not self._over.is_set():  # else they only wait for a failed rank
            self.stuck = set(range(len(self.seats))) - self._done - self.absent
        self._over.set()

    def take(self, node: ProbeNode, report: WorkerReport) -> None:
        """Take a report of a worker; ranks outside the round are ignored."""
        ranks = range(len(self.seats))
        match report.kind:
            case "store" if not self._store_known:
                self._store_known = True
                self._send(report.port, range(1, len(self.seats)))
            case "done" if report.rank in ranks:
                self._done.add(report.rank)
                if report.rank == 0 and (self.absent or not self._store_known):
                    self._over.set()  # no rank can continue without the store
            case "failed" if report.rank in ranks:
                self.failed[report.rank] = report.why
            case "absent":
                self.absent.update(rank for rank in report.ranks if rank in ranks)
            case "figure" if len(self.figures) < MOST_FIGURES:
                self.figures.append(report)
            case "gone":
                gone = {rank for rank in ranks if self.seats[rank].node == node}
                self.failed.update(dict.fromkeys(gone - self._done, report.why))
                self._done |= gone
                if 0 in gone and not self._store_known:
                    self._over.set()
        if report.kind in ("gone", "failed"):
            asyncio.get_running_loop().call_later(GRACE, self._give_up)
        if len(self._done | self.absent | self.failed.keys()) == len(self.seats):
            self._over.set()

    @property
    def apart(self) -> bool:
        """True if a rank did not reach the store."""
        return bool(self.absent) or any(why.startswith(("store:", "barrier:")) for why in self.failed.values())

    def complaint(self) -> str:
        """One line on what went wrong; empty if nothing did."""
        if self.absent:
            return f"{self._nodes(self.absent)} did not come to the barrier"
        if self.failed:
            rank = min(self.failed)
            return f"{self.seats[rank].node.name}: {self.failed[rank]}"
        return f"{self._nodes(self.stuck)} did not finish" if self.stuck else ""

    def _nodes(self, ranks: set[int]) -> str:
        return ", ".join(sorted({self.seats[rank].node.name for rank in ranks}))

    def _send(self, port: int, ranks: range) -> None:
        """Send the round to the workers of these ranks."""
        first = self.seats[0].node
        there = next((rank for rank, seat in enumerate(self.seats) if seat.node != first), 0)
        two = len({seat.node.name for seat in self.seats}) == 2
        by_worker: dict[str, list[int]] = {}
        for rank in ranks:
            by_worker.setdefault(self.seats[rank].node.name, []).append(rank)
        for group in by_worker.values():
            self.seats[group[0]].worker.send({
                "id": self._number,
                "ranks": [[self.seats[rank].local, rank] for rank in group],
                "world": len(self.seats),
                "store": [first.address, port],
                "reach": [there, self.seats[there].node.address] if two else [],
                "sizes": list(self._work.sizes),
                "barrier": self._work.barrier,
                "timeout": self._work.timeout,
            })  # fmt: skip
