"""What log lines prove: NCCL's warnings, the watchdog, torch's checks, the rendezvous."""

from __future__ import annotations

from tests.support.jobs import COMPUTING, READING, Sketch, alarms, first


def test_of_a_rank_that_lives_and_says_nothing_it_is_not_said_that_its_log_was_not_read() -> None:
    job = Sketch()
    job.ranks(0, 1, 3).gone(ago=8.0)
    job.ranks(2).at(READING)
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, group_name="default_pg")
    told = [one.summary for one in job.verdict().findings if one.kind == "watchdog_timeout"]
    assert told
    assert not any("were not read" in one for one in told)


def test_storage_that_does_not_answer() -> None:
    job = Sketch()
    job.ranks().at(COMPUTING)
    job.says("kernel.storage", node="node2", ago=30, system="NFS", server="fs1", ok=False)
    assert first(job.verdict()).kind == "storage_stalled"
    job.says("kernel.storage", node="node2", ago=3, system="NFS", server="fs1", ok=True)
    assert alarms(job.verdict()) == []
