"""Leaf switches of nodes: how they reach the job, what nodes of a finding share."""

from __future__ import annotations

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.leaf_switches import with_shared_leaf
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, tick

LEAVES = {"gpu1": "leaf2", "gpu2": "leaf1", "gpu3": "leaf2", "gpu4": "leaf1"}


def job(leaves: dict[str, str]) -> Job:
    return Job(0.0, 10.0, True, {name: Node(name, leaf=leaf) for name, leaf in leaves.items()})


def test_nodes_are_found_by_the_user_s_name_and_by_their_own() -> None:
    session = Session(SessionOptions(), clock=lambda: 1000.0)
    session.link(LinkChange("root@gpu1", "connecting", "", 1000.0))
    session.link(LinkChange("alias", "connecting", "", 1000.0))
    session.located({"gpu1": "leaf1", "gpu3": "leaf2"})
    session.tick()
    assert {name: node.leaf for name, node in session.job().nodes.items()} == {"root@gpu1": "leaf1", "alias": ""}
    session.samples("alias", [hello(1000.0, hostname="gpu3.cluster"), tick(1000.0)])
    session.tick()
    assert session.job().nodes["alias"].leaf == "leaf2"


@pytest.mark.parametrize(
    ("nodes", "kind", "shared"),
    [
        (("gpu1", "gpu3"), "node_unreachable", "all 2 nodes hang at leaf switch leaf2"),
        (("gpu1", "gpu2"), "node_unreachable", ""),
        (("gpu1",), "node_unreachable", ""),
        (("gpu1", "stranger"), "node_unreachable", ""),
        (("gpu1", "gpu3"), "env_mismatch", ""),
    ],
)
def test_what_all_nodes_of_a_finding_share_and_others_do_not_is_said(
    nodes: tuple[str, ...], kind: str, shared: str
) -> None:
    (found,) = with_shared_leaf(job(LEAVES), [Finding(kind, "critical", 0.9, "they are gone", nodes=nodes)])
    assert found.summary == "they are gone" + (f"; {shared}" if shared else "")


def test_what_all_nodes_of_the_job_share_explains_nothing() -> None:
    finding = Finding("node_unreachable", "critical", 0.9, "they are gone", nodes=("gpu1", "gpu3"))
    assert with_shared_leaf(job(dict.fromkeys(LEAVES, "leaf1")), [finding]) == (finding,)
