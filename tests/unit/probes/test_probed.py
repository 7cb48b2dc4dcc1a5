"""A probe's answer as lines."""

from __future__ import annotations

from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.session.probes.collectives import pair_lines, result

NODES = ("node1", "node2", "node3")


def report(busbw: float = 1.0, pairs: dict[tuple[str, str], float | None] | None = None) -> ProbeReport:
    figure = ProbeFigure("all_reduce", 1 << 20, 0.001, busbw / 1.5, busbw, [])
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(NODES)]
    found = [ProbePair(a, b, speed, 0.0, "") for (a, b), speed in (pairs or {}).items()]
    return ProbeReport("gloo", 3, 1_763_606_820.0, 1.0, "done", "", ranks, [figure], found, {})


def job() -> Job:
    return Job(0.0, 10.0, True, {name: Node(name) for name in NODES})


def lines(found: ProbeReport) -> str:
    return "\n".join(result(found, job()).lines)


def test_the_slowest_pairs_come_first() -> None:
    speeds: dict[tuple[str, str], float | None] = {
        ("node1", "node2"): 1.0, ("node1", "node3"): 0.05, ("node2", "node3"): None,
    }  # fmt: skip
    rows = [line.split() for line in pair_lines(report(pairs=speeds).pairs)]
    assert [row[:4] for row in rows[1:]] == [
        ["node2", "-", "node3", "–"], ["node1", "-", "node3", "0.05"], ["node1", "-", "node2", "1"],
    ]  # fmt: skip


def test_what_nccl_said_and_what_nccl_tests_measured_is_told() -> None:
    said = {"version": "2.27.5", "network": "Socket", "gdr": "off"}
    figure = ProbeFigure("all_reduce", 1 << 29, 0.002, 330.0, 330.0, [])
    found = report()._replace(
        backend="nccl",
        network={"node1": said, "node2": said, "node3": {**said, "network": "IB"}},
        tested=[
            NcclTest("node1", 8, [figure], 0, ""),
            NcclTest("node2", 8, [], None, "did not end within 40 s"),
            NcclTest("node3", 4, [figure._replace(size=1 << 20)], 0, ""),
        ],
    )
    text = lines(found)
    assert "node[1-2]: NCCL 2.27.5; network Socket; GPU Direct RDMA off" in text
    assert "node3: NCCL 2.27.5; network IB" in text
    assert "node1 by itself: nccl-tests, 8 GPUs" in text
    assert "330.000" in text
    assert "node2 by itself: nccl-tests, 8 GPUs: did not end within 40 s" in text
