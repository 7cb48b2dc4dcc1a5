"""Watchdog lines that number ranks beyond all that there can be."""

from __future__ import annotations

import pytest

from tests.support.jobs import after


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
