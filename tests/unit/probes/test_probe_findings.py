"""Reports of the collective probe: the bad node, link or rank is named alone, and a good cluster accuses nobody."""

from __future__ import annotations

from itertools import combinations

from collectors.samples.fabric import PortFacts
from collectors.samples.probes import ProbeFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured.probes import collective_findings, findings
from hangtop.diagnosis.node import Node, Port

NODES = ("node1", "node2", "node3", "node4")


def report(
    speeds: dict[frozenset[str], float | None] | None = None,
    lost: dict[frozenset[str], float] | None = None,
    figures: tuple[ProbeFigure, ...] = (),
    ranks: dict[str, ProbeRank] | None = None,
    errors: dict[frozenset[str], str] | None = None,
) -> ProbeReport:
    """Four nodes whose pairs run at 1 GB/s, but for what is given."""
    pairs = []
    for number, (a, b) in enumerate(combinations(NODES, 2)):
        key = frozenset((a, b))
        speed = (speeds or {}).get(key, 1.0 + 0.05 * number)
        pairs.append(ProbePair(a, b, speed, (lost or {}).get(key, 0.0), (errors or {}).get(key, "")))
    seats = [(ranks or {}).get(name, ProbeRank(i, name, "done", "")) for i, name in enumerate(NODES)]
    return ProbeReport("gloo", 4, 0.0, 1.0, "done", "", seats, list(figures), pairs, {})


def with_node(name: str, value: float) -> dict[frozenset[str], float]:
    return {frozenset((name, other)): value for other in NODES if other != name}


def named(found: ProbeReport) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.kind, finding.nodes) for finding in findings(found)]


def test_loss_explains_slowness() -> None:
    lossy = report(speeds=dict(with_node("node2", 0.05)), lost=with_node("node2", 0.04))
    assert named(lossy) == [("packet_loss", ("node2",))]


def test_an_absent_node_is_named() -> None:
    gone = ProbeRank(-1, "node2", "absent", "no connection to this node")
    assert named(report(ranks={"node2": gone})) == [("probe_absent", ("node2",))]
    (found,) = findings(report(ranks={"node2": gone}))
    assert found.summary == "node2 took no part in the probe: no connection to this node"
    assert "torch" in found.advice


def test_wrong_values_name_rank_and_node() -> None:
    wrong = ProbeFigure("all_reduce", 1 << 20, 0.01, 0.1, 0.2, [2])
    (finding,) = findings(report(figures=(wrong,)))
    assert (finding.kind, finding.ranks, finding.nodes) == ("silent_corruption", (2,), ("node3",))


def test_plain_sockets_beside_an_active_port_are_told() -> None:
    said = {"node1": {"network": "Socket"}, "node2": {"network": "Socket"}, "node3": {"network": "IB"}}
    card = Port(PortFacts("mlx5_0", 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0, 1))
    there = Job(0.0, 10.0, True, {"node1": Node("node1", ports={"mlx5_0/1": card}), "node2": Node("node2")})
    (finding,) = collective_findings(report()._replace(network=said), there)
    assert (finding.kind, finding.nodes) == ("network_socket_fallback", ("node1",))
    assert "NCCL_IB_DISABLE" in finding.advice
