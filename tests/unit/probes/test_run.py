"""The whole probe against workers on paper: rounds, second looks, NCCL's log, what is told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from collectors.probes.allreduce import rounds
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.run import AllreduceProbe
from collectors.samples.probes import ProbeReport
from tests.support.paper_probe import PaperTransport, PaperWorker


class Network:
    """Pairs' seconds by the names of their nodes, seconds of equal work by look, and who never meets."""

    def __init__(
        self, *, work: Sequence[Sequence[float]] = (), apart: str = "", log: bytes = b"", hangs: str = ""
    ) -> None:
        self.work = list(work)
        self.hangs = hangs
        self.fresh: list[tuple[str, int]] = []
        """Node whose process was to be forked anew, and in which round."""
        self.apart = apart
        self.log = log
        self.left: set[PaperWorker] = set()
        self.rounds: list[tuple[str, int]] = []
        """Node that keeps the store, and world size."""

    def serve(self, worker: PaperWorker, command: dict[str, Any], rank: int) -> None:
        number, world = command["id"], command["world"]
        self.fresh += [(worker.name, number) for _ in command["fresh"]]
        if self.hangs and world > 2:
            if worker.name != self.hangs:
                worker.tell("failed", id=number, rank=rank, stage="connect", why="timed out")
            elif rank:
                return
        if rank == 0:
            self.rounds.append((worker.name, world))
            worker.tell("store", id=number, port=29500)
            if self.apart and world == 2 and worker.name == self.apart:
                worker.tell("absent", id=number, ranks=[1])
            else:
                worker.tell("latency", id=number, median_us=80.0)
                if command["stragglers"] and self.work:
                    worker.tell("work", id=number, rounds=20, seconds=self.work.pop(0))
                for op in command["ops"]:
                    for size in command["sizes"]:
                        worker.tell("figure", id=number, op=op, bytes=size, seconds=0.001, wrong=[], odd=[])
        worker.tell("done", id=number, rank=rank, segments=100, retransmitted=0)


def probe(
    network: Network, backend: str = "gloo", names: Sequence[str] = ("n1", "n2", "n3")
) -> tuple[ProbeReport, list[str]]:
    said: list[str] = []
    plan = ProbePlan(tuple(ProbeNode(name, name, gpus=1) for name in names), backend, sizes=(1 << 20,))
    transports = {name: PaperTransport(name, network) for name in names}
    return asyncio.run(AllreduceProbe(plan, transports, {}, said.append).run()), said


def test_all_meet_figures_are_told_as_they_come_and_everything_is_ended() -> None:
    network = Network()
    report, said = probe(network)
    assert (report.outcome, report.world_size, len(report.pairs)) == ("done", 3, 3)
    assert "all_reduce of 1048576 bytes: 1000 µs, busbw 1.4 GB/s" in said
    assert not network.left


def test_two_that_do_not_meet_are_told_with_the_direction() -> None:
    report, _ = probe(Network(apart="n1"))
    blocked = {(pair.a, pair.b): pair.error for pair in report.pairs if pair.error}
    assert all("cannot reach a port of n1" in error for error in blocked.values())
    assert blocked
    assert all("n1" in key for key in blocked)


def test_a_process_that_hangs_in_one_round_is_forked_anew_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "GRACE", 0.05)
    network = Network(hangs="n3")
    report, _ = probe(network)
    assert (report.outcome, report.why) == ("failed", "n1: connect: timed out")
    assert len(network.fresh) == 1
    assert network.fresh[0][0] == "n3"
    assert all(pair.busbw is not None for pair in report.pairs)
