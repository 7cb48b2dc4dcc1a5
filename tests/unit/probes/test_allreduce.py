"""The all_reduce probe against workers on paper: rounds, pairs, second measurements; NCCL's log and nccl-tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from collectors.probes.allreduce import nccl, rounds
from collectors.probes.allreduce.nccl import network_of
from collectors.probes.allreduce.run import AllreduceProbe, ProbePlan, bandwidths
from collectors.probes.allreduce.worker import ProbeNode
from collectors.probes.pairs import Bisection
from collectors.probes.running import NodeAccess
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.probes import findings
from tests.support.here import here
from tests.support.paper_probe import PaperTransport, PaperWorker

# --- arithmetic --------------------------------------------------------------------------------------------------


def test_bus_bandwidth_is_nccl_tests_own() -> None:
    assert bandwidths(1_000_000_000, 0.5, 8) == pytest.approx((2.0, 3.5))
    assert bandwidths(1_000_000_000, 0.5, 1) == pytest.approx((2.0, 2.0))


# --- pairs -------------------------------------------------------------------------------------------------------


class PairsOnPaper:
    """Speeds of pairs by the names that are in them; remembers what was measured, in which company."""

    def __init__(self, bad: dict[frozenset[str], float | None]) -> None:
        self.bad = bad
        self.measured: list[tuple[str, str]] = []
        self.busy: set[str] = set()

    async def measure(self, a: str, b: str) -> ProbePair:
        assert not self.busy & {a, b}, "a node in two pairs at once"
        self.busy |= {a, b}
        await asyncio.sleep(0)
        self.busy -= {a, b}
        self.measured.append((a, b))
        speed = next((s for names, s in self.bad.items() if names <= {a, b}), 1.0)
        return ProbePair(a, b, speed, 0.0, "" if speed is not None else "did not meet")


def bisect(count: int, bad: dict[frozenset[str], float | None]) -> tuple[list[tuple[str, tuple[str, ...]]], int]:
    """Findings' kinds and nodes, and how many measurements that took."""
    names = tuple(f"node{number}" for number in range(1, count + 1))
    network = PairsOnPaper(bad)
    bisection = Bisection(network.measure)
    asyncio.run(bisection.run(names))
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(names)]
    pairs = sorted(bisection.pairs.values())
    report = ProbeReport("gloo", count, 0.0, 1.0, "", ranks, [], pairs, {})
    return [(finding.kind, finding.nodes) for finding in findings(report)], len(network.measured)


@pytest.mark.parametrize("count", [3, 4, 8, 9, 12, 33])
def test_good_networks_accuse_nobody(count: int) -> None:
    assert bisect(count, {})[0] == []


@pytest.mark.parametrize("count", [3, 4, 8, 9, 12, 33])
@pytest.mark.parametrize(("speed", "kind"), [(None, "path_blocked"), (0.1, "bandwidth_low")])
@pytest.mark.parametrize("name", ["node1", "node2", "node3"])
def test_a_bad_node_stands_alone(count: int, speed: float | None, kind: str, name: str) -> None:
    named, measured = bisect(count, {frozenset((name,)): speed})
    assert named == [(kind, (name,))]
    assert count < 33 or measured <= 33 + 10


@pytest.mark.parametrize("count", [3, 4, 8, 12])
@pytest.mark.parametrize(("speed", "kind"), [(None, "path_blocked"), (0.1, "bandwidth_low")])
def test_a_bad_link_is_told_from_its_nodes(count: int, speed: float | None, kind: str) -> None:
    assert bisect(count, {frozenset(("node1", "node2")): speed})[0] == [(kind, ("node1", "node2"))]


@pytest.mark.parametrize(
    ("speed", "named"), [(0.1, [["node1", "node3"], ["node2", "node4"]]), (10.0, [])], ids=["slow", "fast"]
)
def test_two_links_that_differ_are_compared_with_all_the_others(speed: float, named: list[list[str]]) -> None:
    """Two fast links, as of nodes on one switch, make the others no slower."""
    odd: dict[frozenset[str], float | None] = {frozenset(link): speed for link in (NODES[::2], NODES[1::2])}
    assert [sorted(nodes) for _, nodes in bisect(4, odd)[0]] == named


# --- what a report proves ----------------------------------------------------------------------------------------

NODES = ("node1", "node2", "node3", "node4")


def report(slow: str = "", figures: tuple[ProbeFigure, ...] = (), absent: str = "") -> ProbeReport:
    """Four nodes whose pairs run at 1 GB/s, but for those of ``slow``, which lose packets as well."""
    pairs = [ProbePair(a, b, *((0.05, 0.04) if slow in (a, b) else (1.0, 0.0)), "") for a, b in combinations(NODES, 2)]
    gone = ProbeRank(-1, absent, "absent", "no connection to this node")
    seats = [gone if name == absent else ProbeRank(i, name, "done", "") for i, name in enumerate(NODES)]
    return ProbeReport("gloo", 4, 0.0, 1.0, "", seats, list(figures), pairs, {})


def test_loss_explains_slowness() -> None:
    assert [(found.kind, found.nodes) for found in findings(report("node2"))] == [("packet_loss", ("node2",))]


def test_an_absent_node_is_named() -> None:
    (found,) = findings(report(absent="node2"))
    assert (found.kind, found.nodes) == ("probe_absent", ("node2",))
    assert found.summary == "node2 took no part in the probe: no connection to this node"


@pytest.mark.parametrize(
    ("absent", "why", "named"),
    [(1, "", True), (2, "", True), (3, "", False), (3, "no connection to this node", True)],
)
def test_nodes_that_did_not_come_to_the_store_of_a_node_out_of_reach_are_not_named(
    absent: int, why: str, named: bool
) -> None:
    """Four nodes; where only the one with the store is there, pairs tell more."""
    seats = [ProbeRank(i, name, "absent" if i >= 4 - absent else "done", why) for i, name in enumerate(NODES)]
    found = [one.nodes for one in findings(report()._replace(ranks=seats))]
    assert found == [NODES[4 - absent :]] * named


def test_wrong_values_name_rank_and_node() -> None:
    (found,) = findings(report(figures=(ProbeFigure("all_reduce", 1 << 20, 0.01, 0.1, 0.2, [2]),)))
    assert (found.kind, found.ranks, found.nodes) == ("silent_corruption", (2,), ("node3",))


# --- the whole probe ---------------------------------------------------------------------------------------------


class Network:
    """Decides what the workers answer: who never meets, who hangs in the first round."""

    def __init__(self, *, apart: str = "", hangs: str = "") -> None:
        self.log = b""
        self.apart = apart
        self.hangs = hangs
        self.left: set[PaperWorker] = set()

    def serve(self, worker: PaperWorker, command: dict[str, Any], rank: int) -> None:
        number, world = command["id"], command["world"]
        if self.hangs and world > 2:
            if worker.name != self.hangs:
                worker.tell("failed", id=number, rank=rank, why="connect: timed out")
            elif rank:
                return
        if rank == 0:
            worker.tell("store", id=number, port=29500)
            if self.apart and world == 2 and worker.name == self.apart:
                worker.tell("absent", id=number, ranks=[1])
            else:
                for size in command["sizes"]:
                    worker.tell("figure", id=number, size=size, seconds=0.001)
        worker.tell("done", id=number, rank=rank)


def probe(network: Network, names: Sequence[str] = ("n1", "n2", "n3")) -> tuple[ProbeReport, list[str]]:
    said: list[str] = []
    plan = ProbePlan(tuple(ProbeNode(name, name) for name in names))
    access = {name: NodeAccess(name, PaperTransport(name, network), name) for name in names}
    return asyncio.run(AllreduceProbe(plan, access, said.append).run()), said


def test_all_meet_figures_are_told_as_they_come_and_everything_is_ended() -> None:
    network = Network()
    report, said = probe(network)
    assert (report.why, report.world_size, len(report.pairs)) == ("", 3, 3)
    assert "all_reduce of 1048576 bytes: 1000 µs, busbw 1.4 GB/s" in said
    assert not network.left


def test_two_that_do_not_meet_are_told_with_the_direction() -> None:
    report, _ = probe(Network(apart="n1"))
    blocked = {(pair.a, pair.b): pair.error for pair in report.pairs if pair.error}
    assert blocked
    assert all("n1" in key and "cannot reach a port of n1" in error for key, error in blocked.items())


def test_a_failed_round_is_told_and_the_pairs_are_measured_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "GRACE", 0.05)
    report, _ = probe(Network(hangs="n3"))
    assert report.why == "n1: connect: timed out"
    assert all(pair.busbw is not None for pair in report.pairs)


# --- NCCL's own log ----------------------------------------------------------------------------------------------

INFINIBAND = b"""\
node1:4711:4711 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
node1:4711:4711 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
node1:4711:4760 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
node1:4711:4760 [0] NCCL INFO Using network IB
node1:4711:4760 [0] NCCL INFO Channel 00/16 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
node1:4711:4790 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
node1:4711:4790 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:4711:4790 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA
"""
SOCKET = b"""\
NCCL version 2.14.3+cuda11.7
node2:81:90 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>
node2:81:90 [0] NCCL INFO Using network Socket
node2:81:95 [0] NCCL INFO Channel 00/0 : 1[1b000] -> 0[1b000] [receive] via NET/Socket/0
"""


def test_network_and_gpu_direct_are_read_from_nccls_log() -> None:
    assert network_of(INFINIBAND) == {"version": "2.27.5", "network": "IB", "gdr": "on"}
    assert network_of(SOCKET) == {"version": "2.14.3", "network": "Socket", "gdr": "off"}
    assert network_of(b"warning: nothing to see\n") == {}


# --- nccl-tests --------------------------------------------------------------------------------------------------

TABLE = """\
#  Rank  0 Group  0 Pid  65234 on      gpu49 device  0 [0x0a] NVIDIA H200
gpu49:65234:65234 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    36.50   28.73   28.73      0    35.10   29.87   29.87      3
   536870912     134217728     float     sum      -1   1611.2  333.21  333.21    N/A   1610.9  333.27  333.27    N/A
# Avg bus bandwidth    : 181.27
"""


def test_nccl_tests_figures_come_where_the_program_is_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    node = ProbeNode("node1", "127.0.0.1", gpus=(0, 1))

    def measured() -> NcclTest | None:
        access = NodeAccess("node1", here("node1"), "127.0.0.1")
        return asyncio.run(nccl.run_nccl_tests(access, node, (1 << 20, 1 << 29)))

    program = tmp_path / "nccl-tests" / "build" / "all_reduce_perf"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat <<END\n{TABLE}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert measured() is None, "no program of a home or a working folder is run that is not in PATH"
    program.rename(tmp_path / program.name)
    found = measured()
    assert found is not None
    assert (found.ranks, found.wrong, found.why) == (2, 3, "")
    assert [(figure.size, figure.busbw) for figure in found.figures] == [(1 << 20, 28.73), (512 << 20, 333.21)]
