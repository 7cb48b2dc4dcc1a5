"""Leaf and rack of nodes: the order in which they are shown, and what all nodes of a finding share."""

from __future__ import annotations

import pytest

from collectors.samples.location import Location
from collectors.samples.probes import ProbePair
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.rack_topology import BY_NAME, Arrangement, arrangement, with_shared_device
from hangtop.session.probes import plain
from hangtop.session.probes.square import square

LEAVES = {"gpu1": "leaf2", "gpu2": "leaf1", "gpu3": "leaf2", "gpu4": "leaf1"}


def job(leaves: dict[str, str]) -> Job:
    nodes = {name: Node(name, locations=(Location("leaf", leaf, "scontrol"),)) for name, leaf in leaves.items()}
    return Job(0.0, 10.0, True, nodes)


def pairs(*names: str) -> list[ProbePair]:
    """Slow wherever a leaf is crossed."""
    return [
        ProbePair(a, b, 1.0 if LEAVES.get(a) == LEAVES.get(b) else 0.1, 1e-4, 0.0, "")
        for place, a in enumerate(names) for b in names[place + 1 :]
    ]  # fmt: skip


def test_nodes_of_one_leaf_stand_together_with_a_gap_between_leaves() -> None:
    arranged = arrangement(job(LEAVES), LEAVES)
    legend, head, *rows = plain(square(pairs(*LEAVES), arranged))
    assert "by leaf (scontrol)" in legend
    assert head.split() == ["gpu2", "gpu4", "gpu1", "gpu3"]
    assert rows == [
        "leaf1  gpu2           █ 1.0     ▁ 0.1   ▁ 0.1",
        "       gpu4   █ 1.0             ▁ 0.1   ▁ 0.1",
        "",
        "leaf2  gpu1   ▁ 0.1   ▁ 0.1             █ 1.0",
        "       gpu3   ▁ 0.1   ▁ 0.1     █ 1.0        ",
    ]


def test_nodes_are_in_the_order_of_their_names_where_no_device_parts_them() -> None:
    apart = {name: f"leaf{name}" for name in LEAVES}
    together = dict.fromkeys(LEAVES, "leaf1")
    assert arrangement(job(apart), LEAVES) == arrangement(job(together), LEAVES) == BY_NAME
    _, head, *rows = plain(square(pairs(*LEAVES)))
    assert head.split() == sorted(LEAVES)
    assert "" not in rows


def test_a_node_whose_place_is_not_known_comes_last() -> None:
    arranged = Arrangement("leaf", "scontrol", {"b": "leaf1", "c": "leaf1"})
    assert sorted(["a", "c", "b"], key=arranged.key) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("nodes", "kind", "shared"),
    [
        (("gpu1", "gpu3"), "node_unreachable", "all 2 nodes hang at leaf leaf2"),
        (("gpu1", "gpu2"), "node_unreachable", ""),
        (("gpu1",), "node_unreachable", ""),
        (("gpu1", "stranger"), "node_unreachable", ""),
        (("gpu1", "gpu3"), "env_mismatch", ""),
    ],
)
def test_what_all_nodes_of_a_finding_share_and_others_do_not_is_said(
    nodes: tuple[str, ...], kind: str, shared: str
) -> None:
    (found,) = with_shared_device(job(LEAVES), [Finding(kind, "critical", 0.9, "they are gone", nodes=nodes)])
    assert found.summary == "they are gone" + (f"; {shared}" if shared else "")
    assert [line.source for line in found.evidence] == (["topology by scontrol"] if shared else [])


def test_what_all_nodes_of_the_job_share_explains_nothing() -> None:
    finding = Finding("node_unreachable", "critical", 0.9, "they are gone", nodes=("gpu1", "gpu3"))
    assert with_shared_device(job(dict.fromkeys(LEAVES, "leaf1")), [finding]) == (finding,)
