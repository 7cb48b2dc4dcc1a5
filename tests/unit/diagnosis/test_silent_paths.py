"""Connections between nodes of a standing job on which nothing that is sent is acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from collectors.samples.host import Interface
from tests.support.jobs import ALL_REDUCE, READING, Sketch, alarms, first, kinds

TO_2 = ["10.0.0.2:40001", "10.0.0.2:40002"]
TO_1 = ["10.0.0.1:40001"]


def cut(unanswered: Mapping[int, Sequence[str]], *, nodes: int = 2, stood_still: float = 40.0) -> Sketch:
    """Two ranks a node, all in one collective; some of them send in vain."""
    job = Sketch(world=2 * nodes, nodes=nodes, stood_still=stood_still, patience=10.0, watched=60.0)
    for index in range(1, nodes + 1):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24", f"fd00::{index}/64"], "physical")
        docker = Interface("docker0", 1500, None, True, ["172.17.0.1/16"], "bridge")
        job.node(f"node{index}", interfaces=(eth, docker))
    job.ranks().at(ALL_REDUCE)
    for rank, ends in unanswered.items():
        job.ranks(rank).at(ALL_REDUCE, unanswered=ends)
    return job


@pytest.mark.parametrize("far", [TO_2, ["[fd00::2]:40001"]])
def test_what_goes_between_two_nodes_is_not_acknowledged(far: Sequence[str]) -> None:
    verdict = cut({0: far, 3: TO_1}).verdict()
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.nodes, found.ranks) == ("hung", "path_blocked", ("node1", "node2"), ())
    assert "between node1 and node2" in found.summary
    assert "(ranks 0,3)" in found.summary
    assert [line.source for line in found.evidence] == ["sock_diag on node1", "sock_diag on node2"]
    assert [one.cause for one in verdict.findings if one.kind == "collective_stalled"] == ["path_blocked"]


def test_a_node_that_all_of_them_lead_to_is_told_alone() -> None:
    found = first(cut({0: TO_2, 4: TO_2, 3: TO_1}, nodes=3).verdict())
    assert (found.kind, found.nodes) == ("path_blocked", ("node2",))


@pytest.mark.parametrize("far", [["10.0.0.9:443"], ["172.17.0.1:5000"], ["10.0.0.1:40001"], []])
def test_strangers_bridges_and_the_node_itself_are_no_path_of_the_job(far: Sequence[str]) -> None:
    assert "path_blocked" not in kinds(cut({0: far}).verdict())


def test_a_job_that_moves_bears_a_lost_packet() -> None:
    job = cut({0: TO_2}, stood_still=0.5)
    job.ranks(3).at(READING, state="R").pulse(cores=1.0, switches=50)
    assert alarms(job.verdict()) == []


def test_far_ends_in_containers_are_known_by_the_addresses_there() -> None:
    job = cut({})
    job.ranks(0).at(ALL_REDUCE, unanswered=["10.244.2.7:40001"], addresses=["10.244.1.5"])
    job.ranks(3).at(ALL_REDUCE, addresses=["10.244.2.7"])
    found = first(job.verdict())
    assert (found.kind, found.nodes) == ("path_blocked", ("node1", "node2"))
