"""Which processes are the job: by their run where they have a rank, by their program where they have none."""

from __future__ import annotations

from typing import Any

import pytest

from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.unnumbered import Unnumbered
from hangtop.session.job_selection import select_job
from tests.support.made import process


def numbered(rank: int, pid: int, gone_at: float | None = None, **fields: Any) -> Rank:
    return Rank("node1", process(rank, pid=pid, **fields), gone_at=gone_at)


def nameless(pid: int, node: str = "node1", **fields: Any) -> Rank:
    given = {"command": f"python -c spawn_main(pipe_handle={pid})", "local_rank": None, "world_size": None}
    given |= {"launcher": "", "master_port": None, "library": "torch", **fields}
    return Rank(node, process(-1, pid, **given)._replace(rank=Unnumbered(node, pid)))


JOB = [numbered(rank, 20 + rank, started=100.0) for rank in range(4)]
TRAIN = [numbered(rank, 20 + rank, command="python train.py") for rank in range(2)]
CASES = {
    "the newest process of each rank": (
        [*(numbered(rank, 10 + rank, gone_at=90.0) for rank in range(4)), *JOB], {20, 21, 22, 23}, set()
    ),
    "a rank that died": ([numbered(0, 20), numbered(1, 21, gone_at=90.0)], {20, 21}, set()),
    "living orphans of an earlier run are others": (
        [*(numbered(rank, 10 + rank, master_port=29400) for rank in (1, 3)), *JOB], {20, 21, 22, 23}, {11, 13}
    ),
    "the larger of two jobs": (
        [*(numbered(rank, 10 + rank, world_size=2, started=200.0) for rank in range(2)), *JOB],
        {20, 21, 22, 23}, {10, 11},
    ),
    "ranks that rendezvous elsewhere are others, though no rank is claimed twice": (
        [*(numbered(rank, 10 + rank, master_port=29600) for rank in (2, 3)), *JOB[:2]], {20, 21}, {12, 13}
    ),
    "a run that was over when the job began lends it no rank": (
        [*(numbered(rank, 10 + rank, gone_at=90.0, run_id="a", world_size=6) for rank in range(1, 6)),
         numbered(0, 20, run_id="b", world_size=3, started=95.0)],
        {20}, set(),
    ),
    "the launcher of a run starts its ranks anew": (
        [*(numbered(rank, 10 + rank, gone_at=90.0, run_id="b", master_port=29400) for rank in (1, 2)),
         numbered(0, 20, run_id="b", started=95.0)],
        {11, 12, 20}, set(),
    ),
    "one that looked for another master and is gone": (
        [numbered(0, 20), numbered(1, 21, gone_at=90.0, master_port=29501), numbered(2, 22)], {20, 21, 22}, set()
    ),
    "two runs of one node each have equal ports and sizes, and a rank that died is not replaced by the other's": (
        [*(numbered(rank, 20 + rank) for rank in range(3)), numbered(3, 23, gone_at=90.0),
         *(Rank("node2", process(rank, 10 + rank, started=60.0)) for rank in (0, 3))],
        {20, 21, 22, 23}, {10, 13},
    ),
    "two users' runs with equal ports and sizes": (
        [*JOB, *(numbered(rank, 10 + rank, uid=1001, started=200.0) for rank in range(2))],
        {20, 21, 22, 23}, {10, 11},
    ),
    "a run on several nodes": (
        [Rank(f"node{rank}", process(rank, 20 + rank, local_world_size=1)) for rank in range(4)], {20, 21, 22, 23},
        set(),
    ),
    "without a number, those that run what the ranks run or meet where they meet": (
        [*TRAIN, nameless(30, "node2", command="python train.py"), nameless(31, master_port=29500),
         nameless(32, command="python train.py", uid=1000)],
        {20, 21, 30, 31}, {32},
    ),
    "where nobody has a number, the largest group": (
        [nameless(60, command="python -m ipykernel", started=500.0), *(nameless(pid) for pid in (51, 52))],
        {51, 52}, {60},
    ),
    "two such groups of one program, by where they meet": (
        [*(nameless(pid, master_port=29501) for pid in (61, 62)), nameless(51, master_port=29500),
         *(nameless(pid, master_port=29500) for pid in (52, 53)), nameless(54)],
        {51, 52, 53, 54}, {61, 62},
    ),
}  # fmt: skip
"""Processes, the pids of the job, and those of living others."""


@pytest.mark.parametrize(("processes", "job", "others"), CASES.values(), ids=CASES)
def test_the_job(processes: list[Rank], job: set[int], others: set[int]) -> None:
    selected = select_job(processes)
    assert {rank.process.pid for rank in selected.ranks} == job
    assert {rank.process.pid for rank in (*selected.others, *selected.bystanders)} == others
