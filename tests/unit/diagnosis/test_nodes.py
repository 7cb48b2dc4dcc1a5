"""Nodes that do not answer."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import LinkWord, Node, Rank
from hangtop.diagnosis.rules.nodes import node_unreachable
from hangtop.session.job_selection import with_ranks
from tests.support.made import process

LOST: LinkWord = "lost"


def job(*links: tuple[LinkWord, str]) -> Job:
    """Nodes with their links, and why they do not answer; none was ever heard."""
    nodes = {f"n{at}": Node(f"n{at}", link, why, since=90.0) for at, (link, why) in enumerate(links, 1)}
    return Job(now=100.0, watched=10.0, live=True, nodes=nodes)


def test_of_many_nodes_without_an_answer_those_with_one_reason_are_told_at_once() -> None:
    names = ("no address for n1", "no address for n2", "it refuses", "no address for n4")
    first, second = node_unreachable(job(*((LOST, why) for why in names)))
    assert (first.nodes, second.nodes) == (("n1", "n2", "n4"), ("n3",))
    assert first.summary.startswith("n[1-2,4] have not answered for 10 s")


@pytest.mark.parametrize(("size", "ranks"), [(4, (2, 3)), (5, ())], ids=["as many as a node has", "more"])
def test_ranks_of_a_node_that_was_never_seen_are_those_that_run_nowhere_else(size: int, ranks: tuple[int, ...]) -> None:
    made = job(("live", ""), (LOST, "no answer"))
    made.nodes["n1"].ranks.update(
        (one, Rank("n1", process(one, one, started=80.0, world_size=size, local_world_size=2))) for one in (0, 1)
    )
    (found,) = node_unreachable(with_ranks(made))
    assert (found.nodes, found.ranks) == (("n2",), ranks)


def test_where_others_answer_each_node_that_does_not_is_told() -> None:
    found = list(node_unreachable(job(("live", ""), (LOST, "no address for n2"), (LOST, "no address for n3"))))
    assert [one.nodes for one in found] == [("n2",), ("n3",)]
