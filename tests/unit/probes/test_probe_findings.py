"""Reports of the collective probe: the bad node, link or rank is named alone, and a good cluster accuses nobody."""

from __future__ import annotations

from itertools import combinations

from collectors.samples.probes import ProbeFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.measured.probes import findings

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
