"""Nodes that do not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import LinkWord, Node, Rank
from hangtop.diagnosis.rules.nodes import node_unreachable
from hangtop.session.job_selection import with_ranks
from tests.support.jobs import ALL_REDUCE, MOVING, READING, Sketch
from tests.support.made import process

LOST: LinkWord = "lost"


def job(*links: tuple[LinkWord, str]) -> Job:
    """Nodes with their links, and why they do not answer; none was ever heard."""
    nodes = {f"n{at}": Node(f"n{at}", link, why, since=90.0) for at, (link, why) in enumerate(links, 1)}
    return Job(now=100.0, watched=10.0, live=True, nodes=nodes)


def with_two_ranks(made: Job, size: int | None, gone: float | None = None) -> Job:
    """Ranks 0 and 1 were seen on n1, of a job of this size; rank 1 may be gone."""
    for one in (0, 1):
        own = process(one, one, started=80.0, world_size=size, local_world_size=2)
        made.nodes["n1"].ranks[one] = Rank("n1", own, gone_at=gone if one else None)
    return with_ranks(made)


def test_of_many_nodes_without_an_answer_those_with_one_reason_are_told_at_once() -> None:
    names = ("no address for n1", "no address for n2", "it refuses", "no address for n4")
    first, second = node_unreachable(job(*((LOST, why) for why in names)))
    assert (first.nodes, second.nodes) == (("n1", "n2", "n4"), ("n3",))
    assert first.summary.startswith("n[1-2,4] have not answered for 10 s")
    assert {first.severity, second.severity} == {"warning"}


@pytest.mark.parametrize(("size", "ranks"), [(4, (2, 3)), (5, ())], ids=["as many as a node has", "more"])
def test_ranks_of_a_node_that_was_never_seen_are_those_that_run_nowhere_else(size: int, ranks: tuple[int, ...]) -> None:
    made = job(("live", ""), (LOST, "no answer"))
    (found,) = node_unreachable(with_two_ranks(made, size))
    assert (found.nodes, found.ranks) == (("n2",), ranks)


def test_where_others_answer_each_node_that_does_not_is_told() -> None:
    found = list(node_unreachable(job(("live", ""), (LOST, "no address for n2"), (LOST, "no address for n3"))))
    assert [one.nodes for one in found] == [("n2",), ("n3",)]


REFUSED = "root@n2 port 22 accepts none of the keys offered"


@pytest.mark.parametrize(
    ("size", "gone", "refused", "severity"),
    [
        (2, None, True, "warning"), (4, None, True, "critical"), (None, None, True, "warning"),
        (2, None, False, "warning"), (2, 95.0, False, "critical"), (4, None, False, "critical"),
        (None, None, False, "critical"),
    ],
)  # fmt: skip
def test_a_node_without_ranks_is_spare_where_all_ranks_live_on_others(
    size: int | None, gone: float | None, refused: bool, severity: str
) -> None:
    made = job(("live", ""), (LOST, REFUSED))
    made.nodes["n2"].refused = refused
    (found,) = node_unreachable(with_two_ranks(made, size, gone))
    assert (found.severity, found.nodes) == (severity, ("n2",))
    assert found.summary.startswith("hangtop cannot log in to n2") is refused
    assert found.advice.startswith("Mend the login") is refused


def test_a_node_with_a_living_rank_is_not_spare() -> None:
    made = job(("live", ""), (LOST, "no answer"))
    made.nodes["n2"].ranks[1] = Rank("n2", process(2, 1, started=80.0, world_size=3, local_world_size=2))
    (found,) = node_unreachable(with_two_ranks(made, 3))
    assert (found.severity, found.ranks) == ("critical", (2,))


@pytest.mark.parametrize(("refused", "outcome"), [(True, "healthy"), (False, "unknown")])
def test_a_node_without_a_login_takes_nothing_from_a_job_whose_ranks_are_all_in_view(
    refused: bool, outcome: str
) -> None:
    made = Sketch()
    made.ranks().at(ALL_REDUCE, READING).pulse(switches=40, cores=0.9)
    made.motion = MOVING
    made.made_nodes["n9"] = Node("n9", LOST, REFUSED, since=90.0, refused=refused)
    assert made.verdict().outcome == outcome


# --- another job on the same nodes --------------------------------------------------------------------------------


def beside(**differs: Any) -> Sketch:
    """A job that moves, and its four processes once more, of another run."""
    job = Sketch()
    job.ranks().at(ALL_REDUCE, READING).pulse(switches=40, cores=0.9)
    job.motion = MOVING
    for one in job.job().ranks:
        own = one.process._replace(pid=one.process.pid + 500, command="python other.py", **{"parent": 77, **differs})
        job.others.append(replace(one, process=own))
    return job


def test_another_job_is_told_with_what_chooses_it() -> None:
    verdict = beside(master_port=29777).verdict()
    assert verdict.outcome == "healthy"
    (told,) = [one for one in verdict.unknown if one.source == "another job"]
    assert told.nodes == ("node1", "node2")
    assert told.why == "4 ranks of another run, not judged (python other.py): --job MASTER_PORT=29777 chooses it"


def test_a_run_of_one_node_with_the_same_port_is_chosen_by_its_node() -> None:
    told = [one for one in beside(local_world_size=4).verdict().unknown if one.source == "another job"]
    assert {(one.nodes, one.why.rpartition(": ")[2]) for one in told} == {
        (("node1",), "name only node1 to watch it"), (("node2",), "name only node2 to watch it")
    }  # fmt: skip


def test_what_an_earlier_run_left_is_no_other_job() -> None:
    verdict = beside(master_port=29777, adopted=True, launcher="torchrun").verdict()
    assert not [one for one in verdict.unknown if one.source == "another job"]
