"""Jobs of thousands of ranks are judged by a part of what is kept of them: the same as of all where they are alike."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import pytest

from collectors.samples.collectives import RecorderDump
from hangtop.diagnosis.collectives import edges
from hangtop.diagnosis.job import JobMotion, Rank
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, MOVING, NOW, READING, Sketch, collective
from tests.support.jobs import gpu as sketched_gpu


def dump(rank: int, last: int, ranks: int) -> RecorderDump:
    """A rank that has launched the all_reduces up to ``last`` of a group of so many, and waits in it."""
    launched = [collective(rank, seq, done=seq < last) for seq in range(1, last + 1)]
    return RecorderDump(rank, "2.10", f"node1:/tmp/fr_{rank}", NOW - 12, {"0": list(range(ranks))}, [], launched)


def test_what_thousands_of_waiting_ranks_have_in_common_is_worked_out_once() -> None:
    dumps = [dump(rank, 4 if rank == 5 else 5, 200) for rank in range(200)]
    found = edges.edges_by_recorders(edges.recorded(dumps))
    assert {edge.waiter for edge in found if edge.why == "not launched"} == set(range(200)) - {5}
    assert {edge.for_ranks for edge in found} == {(5,)}
    assert len({id(edge.for_ranks) for edge in found}) == 1


class CountedRank(Rank):
    """A rank that counts how often something of any is read."""

    __slots__ = ()
    reads: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        CountedRank.reads += 1
        return super().__getattribute__(name)


def reads_of(nodes: int, *, hangs: bool) -> int:
    """How often a diagnosis reads something of a rank, of a job with so many nodes, each with two ranks and a GPU."""
    job = Sketch(world=2 * nodes, nodes=nodes, motion=JobMotion() if hangs else MOVING)
    if hangs:
        job.ranks().at(ALL_REDUCE)
        job.ranks(3).at(READING)
    for name in tuple(job.made_nodes):
        job.node(name, gpus=(sketched_gpu(0, [{}] * 3, pids=[1, 2]),))
    made = job.job()
    ranks = tuple(CountedRank(**{each.name: getattr(rank, each.name) for each in fields(rank)}) for rank in made.ranks)
    CountedRank.reads = 0
    assert diagnose(replace(made, ranks=ranks)).outcome == ("hung" if hangs else "healthy")
    return CountedRank.reads


@pytest.mark.parametrize("hangs", [False, True])
def test_no_rule_goes_through_all_ranks_for_each_node(hangs: bool) -> None:
    """One did: at 2,048 nodes that was most of a verdict. Eight times the nodes are read eight times as often."""
    assert reads_of(128, hangs=hangs) < 9 * reads_of(16, hangs=hangs)
