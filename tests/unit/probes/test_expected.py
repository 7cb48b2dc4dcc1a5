"""What the hardware should give, chosen from the nodes' samples; and when a figure is clearly under it."""

from __future__ import annotations

import pytest

from collectors.samples.fabric import PortFacts
from collectors.samples.gpus import GpuFacts
from collectors.samples.probes import ProbeFigure, ProbeRank, ProbeReport
from hangtop.diagnosis.job import Gpu, Job, Node, Port
from hangtop.diagnosis.measured.expected import Expected, bandwidth_low, expected

H100 = "NVIDIA H100 80GB HBM3"


def gpus(name: str, count: int = 8) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index,
            GpuFacts(index, f"GPU-{index}", f"0:{index}", name, "550", 80 << 30, 700.0, 1980, 5, 16, ""),
        )
        for index in range(count)
    )


def cards(rate: float, count: int = 8, layer: str = "InfiniBand", state: str = "ACTIVE") -> tuple[Port, ...]:
    return tuple(
        Port(
            PortFacts(
                f"mlx5_{n}",
                1,
                layer,
                state,
                "LinkUp",
                rate,
                1,
            )
        )
        for n in range(count)
    )


def job(**fields: object) -> Job:
    return Job(0.0, 10.0, True, {name: Node(name, **fields) for name in ("node1", "node2")})  # type: ignore[arg-type]


def report(
    busbw: float, size: int = 1 << 29, backend: str = "nccl", nodes: int = 2, each: int = 8, network: str = "IB",
) -> ProbeReport:  # fmt: skip
    names = [f"node{number + 1}" for number in range(nodes)]
    ranks = [ProbeRank(i, names[i // each], "done", "") for i in range(nodes * each)]
    figure = ProbeFigure("all_reduce", size, 0.1, busbw / 2, busbw, [])
    said = {"network": network}
    return ProbeReport(
        backend, len(ranks), 0.0, 1.0, "done", "", ranks, [figure], [],
        dict.fromkeys(names, said) if backend == "nccl" else {},
    )  # fmt: skip


def chosen(there: Job, measured: ProbeReport) -> Expected:
    found = expected(there, measured)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("NVIDIA A100-SXM4-80GB", 220, 240), (H100, 450, 480), ("NVIDIA H200", 430, 480), ("NVIDIA B200", 780, 850)],
)  # fmt: skip
def test_one_node_is_measured_by_its_nvlink(name: str, least: float, most: float) -> None:
    found = chosen(job(gpus=gpus(name)), report(1.0, nodes=1))
    assert least <= found.busbw <= most
    assert found.source


@pytest.mark.parametrize(
    ("rate", "layer", "each"),
    [(100.0, "InfiniBand", 12.2), (200.0, "InfiniBand", 24.0), (400.0, "InfiniBand", 48.0), (800.0, "InfiniBand", 96.0),
     (25.0, "Ethernet", 2.66), (400.0, "Ethernet", 42.5)],
)  # fmt: skip
def test_several_nodes_are_measured_by_their_cards(rate: float, layer: str, each: float) -> None:
    there = job(gpus=gpus("Tesla T4"), ports=cards(rate, 2, layer))
    assert expected(there, report(1.0)) is None  # nothing is known of the way within a node
    assert chosen(there, report(1.0, each=1)).busbw == pytest.approx(2 * each, rel=0.01)
    there = job(gpus=gpus("NVIDIA B200"), ports=cards(rate, 2, layer))
    assert chosen(there, report(1.0)).busbw == pytest.approx(2 * each, rel=0.01)


def test_clearly_too_little_is_a_finding_with_figure_and_source() -> None:
    there = job(gpus=gpus(H100), ports=cards(400.0))
    (finding,) = bandwidth_low(there, report(120.0))
    assert (finding.kind, finding.nodes) == ("bandwidth_low", ("node1", "node2"))
    assert "8 × NDR" in finding.summary
    assert "issue 267" in finding.evidence[1].text


def test_plain_sockets_are_the_reason_that_is_told() -> None:
    (finding,) = bandwidth_low(job(gpus=gpus(H100), ports=cards(400.0)), report(5.0, network="Socket"))
    assert "NCCL goes over plain sockets on node1, node2" in finding.summary
    assert "NCCL_IB_DISABLE" in finding.advice
