"""Jobs of thousands of ranks are judged by a part of what is kept of them: the same as of all where they are alike."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import pytest

from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, MOVING, READING, Sketch
from tests.support.jobs import gpu as sketched_gpu


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
