"""Watchdogs of torch before 2.3: no label, no time, no group; only ``[Rank N]``, the rank within the group.

The lines are made from the format strings of ``ProcessGroupNCCL.cpp``: since 1.13 the same but for the work, which has
its SeqNum since 2.0 and NumelIn and NumelOut since 2.1; 2.2 puts ``[rankN]:`` in front.
"""

from __future__ import annotations

import pytest

from hangtop.diagnosis.finding import Verdict
from tests.support.jobs import Sketch, after, first
from tests.support.logs import parse

WORKS = {
    "1.13": "OpType={op}, Timeout(ms)=1800000",
    "2.0": "SeqNum={seq}, OpType={op}, Timeout(ms)=1800000",
    "2.1": "SeqNum={seq}, OpType={op}, NumelIn=64, NumelOut=64, Timeout(ms)=1800000",
}


def said(version: str, rank: int, seq: int, op: str = "ALLREDUCE", ran: int = 1800410) -> str:
    work = WORKS[version].format(op=op, seq=seq)
    return (
        f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL({work})"
        f" ran for {ran} milliseconds before timing out.\n"
    )


def verdict(*lines: str) -> Verdict:
    job: Sketch = after(0)
    job.events = parse("".join(lines))
    job.event_nodes = [""] * len(job.events)
    return job.verdict()


@pytest.mark.parametrize("version", WORKS)
def test_who_did_not_come_is_told_by_the_ranks_in_brackets(version: str) -> None:
    found = first(verdict(*(said(version, rank, 96) for rank in (0, 1, 3))))
    assert (found.kind, found.ranks) == ("watchdog_timeout", (2,))
    assert "of an unnamed group" in found.summary
    assert "no process group" in found.advice


def test_ranks_of_several_groups_are_not_put_together() -> None:
    """Two processes are rank 0 of their groups: which of them is the job's rank 0, nothing tells."""
    found = first(verdict(*(said("2.1", rank, 96, ran=1800400 + group) for rank in (0, 1, 3) for group in (0, 1))))
    assert (found.kind, found.ranks) == ("watchdog_timeout", ())
    assert "only their ranks within groups" in found.summary


@pytest.mark.parametrize("number", [1 << 20, 1 << 40])
@pytest.mark.parametrize("group", ["default_pg", "dp"])
def test_a_number_beyond_all_ranks_is_no_rank_and_fills_no_memory(number: int, group: str) -> None:
    """Anybody may have written it; whoever counts up to it takes all that this machine has."""
    job = after(0)
    for place in (0, 1, number + 1):
        job.says("torch.watchdog_timeout", None, op="ALLREDUCE", seq=9, group_rank=place, group_name=group, guid="0")
        job.says("nccl.init", None, phase="start", comm_id="0xa", group_rank=place, size=number + 1)
        job.says("hccl.timeout", None, group_rank=place, size=number + 1)
        job.says("horovod.stall", None, ready=[place], missing=[])
        job.says("launcher.exit", None, tasks=[0, number + 1])
    named = {rank for finding in job.verdict().findings for rank in finding.ranks}
    assert max(named, default=0) <= 1
