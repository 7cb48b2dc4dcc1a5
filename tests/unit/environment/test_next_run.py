"""The settings that would have caught this: only what the job lacks, and launch lines with the job's own figures."""

from __future__ import annotations

from hangtop.diagnosis.environment.next_run import next_run
from hangtop.diagnosis.job import Job, Rank
from tests.support.made import process


def job(*environments: dict[str, str]) -> Job:
    ranks = [Rank(rank, "node1", process(rank, env=env)) for rank, env in enumerate(environments)]
    return Job(now=1.0, watched=1.0, live=True, ranks=tuple(ranks))


def names(*environments: dict[str, str]) -> set[str]:
    return {setting.name for setting in next_run(job(*environments)).settings}


def test_what_the_job_has_is_not_asked_for_again_and_a_value_that_does_not_do_is_missing() -> None:
    have = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "5000", "NCCL_DEBUG": "info", "NCCL_DEBUG_FILE": "/logs/%h-%p"}
    assert not set(have) & names(have, have)
    assert "NCCL_DEBUG" in names(have, {})
    poor = {"NCCL_DEBUG": "WARN", "TORCH_NCCL_DUMP_ON_TIMEOUT": "False", "TORCH_FR_BUFFER_SIZE": "0"}
    assert names(poor) >= set(poor)


def test_launch_lines_carry_the_jobs_own_figures() -> None:
    found = next_run(job({}))
    assert "--nnodes=1 --nproc_per_node=4" in found.torchrun
    assert "--rdzv_endpoint=node1:29500" in found.torchrun
    assert "export NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log  #" in "\n".join(found.text())
