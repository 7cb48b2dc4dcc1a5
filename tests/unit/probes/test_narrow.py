"""From a bad node to its bad GPU or port, over workers on paper: what is measured, and who is named for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from collectors.probes.allreduce import reports
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.ports import LocalPort, facing, used
from collectors.probes.allreduce.rounds import RoundOutcome, Rounds, Seat, Work, _note
from collectors.probes.allreduce.run import AllreduceProbe
from collectors.probes.allreduce.workers import Worker, _visible
from collectors.samples.probes import ProbePair, ProbeReport
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.measured.probes import findings
from tests.support.paper_probe import PaperTransport, PaperWorker

Place = tuple[str, int, str]
"""Node, local rank, and what it is bound to (empty: its default)."""
SIZE = 1 << 20
NETS = ("eth0", "eth1")
CARDS = ("mlx5_0/1", "mlx5_1/1", "mlx5_2/1")


class Fabric:
    """A round is slow, or fails, when one of its seats is bad."""

    def __init__(self, bad: Callable[[Place], bool], *, fails: bool = False, patience: float = 0.0) -> None:
        self.bad, self.fails, self.patience = bad, fails, patience
        self.log = b""
        self.left: set[PaperWorker] = set()
        self.fresh: list[Place] = []
        self.rounds: list[set[Place]] = []
        self._here: dict[int, list[tuple[PaperWorker, int, Place]]] = {}

    def serve(self, worker: PaperWorker, command: dict[str, Any], rank: int) -> None:
        number, local = command["id"], command["locals"][command["ranks"].index(rank)]
        seat = (worker.name, local, next(iter(command["env"].values()), ""))
        if local in command["fresh"]:
            self.fresh.append(seat)
        if rank == 0:
            worker.tell("store", id=number, port=29500)
        here = self._here.setdefault(number, [])
        here.append((worker, rank, seat))
        if len(here) == command["world"]:
            asyncio.get_running_loop().call_later(self.patience * bool(command["env"]), self._end, command, here)

    def _end(self, command: dict[str, Any], here: list[tuple[PaperWorker, int, Place]]) -> None:
        number, seats = command["id"], {seat for _, _, seat in here}
        self.rounds.append(seats)
        bad = any(map(self.bad, seats))
        first = next(worker for worker, rank, _ in here if rank == 0)
        for size in command["sizes"] if not (bad and self.fails) else ():
            seconds = 0.1 if bad else 0.001
            first.tell("figure", id=number, op="all_reduce", bytes=size, seconds=seconds, wrong=[], odd=[])
        for worker, rank, _ in here:
            if bad and self.fails:
                worker.tell("failed", id=number, rank=rank, stage="connect", why="timed out")
            worker.tell("done", id=number, rank=rank, segments=100, retransmitted=0)


def node(name: str, gpus: int = 1, ports: Sequence[str] = ()) -> ProbeNode:
    kind = "hca" if "mlx5" in "".join(ports) else "interface"
    held = tuple(
        LocalPort(port, "hca")
        if kind == "hca"
        else LocalPort(port, "interface", f"10.{i}.0.{name[1:]}", f"10.{i}.0.0/24")
        for i, port in enumerate(ports)
    )
    return ProbeNode(name, name, gpus=gpus, ports=held)


def probed(fabric: Fabric, nodes: Sequence[ProbeNode], backend: str, **more: Any) -> tuple[ProbeReport, list[str]]:
    plan = replace(ProbePlan(tuple(nodes), backend, sizes=(SIZE,), pair_sizes=(SIZE,)), **more)
    said: list[str] = []
    transports = {one.name: PaperTransport(one.name, fabric) for one in nodes}
    report = asyncio.run(AllreduceProbe(plan, transports, {}, said.append).run())
    assert not fabric.left
    return report, said


def only(report: ProbeReport) -> Finding:
    (finding,) = findings(report)
    return finding


@pytest.mark.parametrize(("fails", "kind"), [(False, "slow_node"), (True, "path_blocked")])
@pytest.mark.parametrize("gpu", [0, 2])
def test_the_bad_gpu_of_a_node_stands_alone(gpu: int, fails: bool, kind: str) -> None:
    fabric = Fabric(lambda seat: seat[:2] == ("n2", gpu), fails=fails)
    report, _ = probed(fabric, [node(name, gpus=4) for name in ("n1", "n2", "n3", "n4")], "nccl")
    finding = only(report)
    assert (finding.kind, finding.nodes, finding.gpus, finding.ports) == (kind, ("n2",), (f"n2:{gpu}",), ())
    assert f"GPU {gpu} of n2" in finding.summary
    assert {len(seats) for seats in fabric.rounds} == {16, 8, 2}  # all, two nodes, two GPUs


def test_gpus_are_named_as_nvidia_smi_counts_them() -> None:
    nodes = [replace(node(name, gpus=3), gpu_numbers=(0, 2, 5)) for name in ("n1", "n2", "n3", "n4")]
    report, _ = probed(Fabric(lambda seat: seat[:2] == ("n3", 1)), nodes, "nccl")
    assert only(report).gpus == ("n3:2",)
    assert {rank.gpu for rank in report.ranks} == {0, 2, 5}


def test_of_two_nodes_the_gpu_is_found_by_crossing_over() -> None:
    report, _ = probed(Fabric(lambda seat: seat[:2] == ("n1", 3)), [node("n1", 4), node("n2", 4)], "nccl")
    finding = only(report)
    assert (finding.kind, finding.nodes, finding.gpus) == ("slow_node", ("n1",), ("n1:3",))


def test_of_one_node_every_gpu_meets_every_other() -> None:
    report, _ = probed(Fabric(lambda seat: seat[1] == 1), [node("n1", 4)], "nccl")
    finding = only(report)
    assert (finding.kind, finding.nodes, finding.gpus) == ("slow_node", ("n1",), ("n1:1",))
    assert len(report.by_gpu) == 6


def test_local_ranks_on_cpu_are_told_apart_but_are_no_gpus() -> None:
    fabric = Fabric(lambda seat: seat[:2] == ("n2", 1))
    report, _ = probed(fabric, [node(name) for name in ("n1", "n2", "n3", "n4")], "gloo", ranks_per_node=2)
    finding = only(report)
    assert (finding.nodes, finding.gpus) == (("n2",), ())
    assert "local rank 1 of n2" in finding.summary


@pytest.mark.parametrize(("fails", "kind"), [(False, "slow_node"), (True, "path_blocked")])
def test_the_bad_interface_of_a_node_stands_alone(fails: bool, kind: str) -> None:
    fabric = Fabric(lambda seat: seat[0] == "n2" and seat[2] in ("", "eth0"), fails=fails)
    report, _ = probed(fabric, [node(name, ports=NETS) for name in ("n1", "n2", "n3", "n4")], "gloo")
    finding = only(report)
    assert (finding.kind, finding.nodes, finding.ports) == (kind, ("n2",), ("n2:eth0",))
    assert "n1:eth1 - n2:eth1: busbw" in " ".join(piece.text for piece in finding.evidence)


def test_the_port_that_loses_packets_is_told_with_its_share() -> None:
    pairs = [ProbePair("n1:eth0", "n2:eth0", 0.5, 1e-4, 0.083, ""),
             ProbePair("n1:eth1", "n2:eth1", 1.0, 1e-4, 0.0, "")]  # fmt: skip
    nodes = [ProbePair(a, b, 0.3 if "n2" in (a, b) else 1.0, 1e-4, 0.08 if "n2" in (a, b) else 0.0, "")
             for a, b in combinations(("n1", "n2", "n3", "n4"), 2)]  # fmt: skip
    finding = only(ProbeReport("gloo", 4, 0.0, 1.0, "done", "", [], [], nodes, None, {}, by_port=pairs))
    assert (finding.kind, finding.nodes, finding.ports) == ("packet_loss", ("n2",), ("n2:eth0",))
    assert finding.evidence[0].text == "n1:eth0 - n2:eth0: busbw 0.5 GB/s, 8.3% sent again"


def test_both_ends_of_a_bad_link_are_named_where_nothing_can_cross_over() -> None:
    fabric = Fabric(lambda seat: seat[2] == "eth0")
    report, _ = probed(fabric, [node("n1", ports=NETS), node("n2", ports=NETS)], "gloo", bisect="always")
    finding = only(report)
    assert (finding.kind, finding.ports) == ("slow_link", ("n1:eth0", "n2:eth0"))


def test_the_bad_port_of_an_hca_is_told_from_the_gpu_that_uses_it() -> None:
    # By default GPU 0 leaves through mlx5_0: it is slow too, and well through another port.
    def bad(seat: Place) -> bool:
        return seat[0] == "n3" and (seat[2] == "=mlx5_0:1" or (seat[1] == 0 and not seat[2]))

    fabric = Fabric(bad)
    report, _ = probed(fabric, [node(name, 3, CARDS) for name in ("n1", "n2", "n3", "n4")], "nccl")
    finding = only(report)
    assert (finding.gpus, finding.ports) == (("n3:0",), ("n3:mlx5_0/1",))
    assert finding.advice.startswith("Look at this port first")
    # Ports are tried through a GPU that is well, each in a process that reads its settings anew.
    assert {seat[:2] for seat in fabric.fresh if seat[2]} == {("n3", 1), ("n1", 1)}
    assert {seat[2] for seat in fabric.fresh if seat[0] == "n3"} == {"=mlx5_0:1", "=mlx5_1:1", "=mlx5_2:1"}


@pytest.mark.parametrize("fails", [False, True])
def test_a_node_all_of_whose_gpus_are_bad_is_named_as_a_node(fails: bool) -> None:
    fabric = Fabric(lambda seat: seat[0] == "n2", fails=fails)
    report, _ = probed(fabric, [node(name, 2, NETS) for name in ("n1", "n2", "n3", "n4")], "nccl")
    finding = only(report)
    assert (finding.nodes, finding.gpus, finding.ports) == (("n2",), (), ())
    assert len(report.by_gpu) == 2
    assert len(report.by_port) == 2


def test_where_nothing_is_bad_nothing_more_is_measured_and_nobody_named() -> None:
    report, _ = probed(Fabric(lambda _seat: False), [node(n, 2, NETS) for n in ("n1", "n2", "n3", "n4")], "nccl")
    assert findings(report) == ()
    assert (report.by_gpu, report.by_port, report.untried) == ([], [], [])
    never, _ = probed(Fabric(lambda seat: seat[0] == "n1"), [node(n, 2) for n in ("n1", "n2")], "nccl", bisect="never")
    assert never.by_gpu == []


def test_what_there_was_no_time_or_no_partner_for_is_said() -> None:
    fabric = Fabric(lambda seat: seat[0] == "n2" and seat[2] in ("", "eth0"), patience=0.05)
    nodes = [node("n1", ports=NETS), node("n2", ports=(*NETS, "eth2")), node("n3", ports=NETS), node("n4", ports=NETS)]
    report, _ = probed(fabric, nodes, "gloo", narrow_time=0.12)
    assert report.untried == [
        "n2: n1 has nothing in the network of eth2", "n2: not all GPUs and ports could be tried within 0 s",
    ]  # fmt: skip


def test_ports_face_those_of_their_network_and_of_their_name() -> None:
    mine = [
        LocalPort("eth0", "interface", "10.0.0.1", "10.0.0.0/24"),
        LocalPort("eth1", "interface", "10.1.0.1", "10.1.0.0/24"),
    ]
    others = [LocalPort("ens3", "interface", "10.0.0.2", "10.0.0.0/24"), LocalPort("mlx5_0/1", "hca")]
    assert facing(mine, others) == [(mine[0], others[0])]
    cards = [LocalPort("mlx5_0/1", "hca"), LocalPort("mlx5_3/1", "hca")]
    assert facing(cards, cards[::-1]) == [(card, card) for card in cards]


def test_ports_that_are_tried_are_those_in_use() -> None:
    ports = [LocalPort("eth0", "interface"), LocalPort("mlx5_0/1", "hca"), LocalPort("mlx5_1/1", "hca")]
    assert used(ports, "gloo", {}) == ports[:1]
    assert used(ports, "nccl", {}) == ports[1:]
    assert used(ports, "nccl", {"network": "Socket"}) == ports[:1]
    assert used(ports, "nccl", {"network": "IB", "devices": "mlx5_1:1/IB"}) == ports[2:]
    assert ports[0].binding("gloo") == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert ports[0].binding("nccl") == {"NCCL_SOCKET_IFNAME": "=eth0"}
    assert ports[1].binding("nccl") == {"NCCL_IB_HCA": "=mlx5_0:1"}


async def test_a_process_is_forked_anew_whenever_it_is_to_be_bound_otherwise() -> None:
    fabric = Fabric(lambda _seat: False)
    one, other = node("n1", ports=NETS), node("n2", ports=NETS)
    plan = ProbePlan((one, other))
    rounds = Rounds(plan)
    workers = [Worker(node, rounds.take) for node in (one, other)]
    for worker in workers:
        await worker.start(PaperTransport(worker.node.name, fabric), plan, "python3")
    for port in (None, other.ports[0], other.ports[0], other.ports[1], None, None):
        outcome = await rounds.run([Seat(workers[0], 0), Seat(workers[1], 0, port)], Work(("all_reduce",), (4,), 1, 1))
        assert outcome.good
    assert fabric.fresh == [("n2", 0, "eth0"), ("n2", 0, "eth1"), ("n2", 0, "")]
    for worker in workers:
        await worker.stop()


def test_the_devices_of_a_worker_are_numbered_as_nvidia_smi_does() -> None:
    assert _visible(replace(node("n1", 2), gpu_numbers=(1, 3))) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3",
    }  # fmt: skip
    assert _visible(node("n1", 2)) == {}


def test_reports_of_ranks_that_a_round_does_not_have_are_passed_over() -> None:
    one, other = node("n1"), node("n2")
    workers = [Worker(which, lambda *_: None) for which in (one, other)]
    outcome = RoundOutcome([Seat(worker, 0) for worker in workers])
    for report in (
        reports.Finished(rank=7, segments=1),
        reports.RankFailed(rank=9, stage="x", why="y"),
        reports.MissingRanks(ranks=[5]),
    ):
        _note(outcome, report)
    assert outcome.good
    assert not outcome.done
    _note(outcome, reports.Equal(seconds=[1.0] * 50_000))
    assert outcome.work == [1.0, 1.0]
    assert outcome.complaint() == ""
