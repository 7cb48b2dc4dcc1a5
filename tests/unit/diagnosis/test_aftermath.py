"""What is said of files in which nothing is wrong, or not enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.job import Look
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, READING, Sketch, after


def destroyed(*ranks: int, size: int = 4) -> Sketch:
    job = after()
    for rank in range(4):
        job.says("nccl.init", rank, ago=99, phase="start", comm_id="0xa", group_rank=rank, size=size)
        job.says("nccl.init", rank, ago=98, phase="complete", comm_id="0xa", group_rank=rank, size=size)
    for rank in ranks:
        job.says("nccl.end", rank, ago=9, phase="destroy", comm_id="0xa", group_rank=rank, size=size)
    return job


def test_a_finished_run_in_which_nothing_is_wrong() -> None:
    verdict = after().says("job.finished", 0, ago=9).verdict()
    assert (verdict.outcome, verdict.summary) == (
        "healthy",
        "the run ended well, and nothing is wrong in what was read",
    )
    assert destroyed(0, 1, 2, 3).verdict().outcome == "healthy"


@pytest.mark.parametrize("ranks", [(), (0, 1, 2)])
def test_communicators_that_live_on_do_not_say_how_it_ended(ranks: tuple[int, ...]) -> None:
    verdict = destroyed(*ranks).verdict()
    assert verdict.outcome == "unknown"
    assert "does not say how the run ended" in verdict.summary


def test_nothing_known_is_nothing_to_judge() -> None:
    assert "nothing to judge" in after().says("log.end", None, ago=9, lines=3).verdict().summary


def test_a_single_look_says_where_the_rank_was() -> None:
    job = Sketch(world=1, nodes=1, live=False, looks=1)
    job.ranks(0).at(READING)
    verdict = job.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    assert "1 rank looked at: rank 0" in verdict.summary
    assert "data.py:88" in verdict.summary


def test_one_saved_look_at_all_ranks_is_enough_after_the_fact() -> None:
    job = Sketch(live=False, looks=1)
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING)
    assert (job.verdict().outcome, job.verdict().findings[0].ranks) == ("hung", (3,))
    live = Sketch(looks=1, span=0.0, watched=0.0)
    live.ranks(0, 1, 2).at(ALL_REDUCE)
    live.ranks(3).at(READING)
    assert live.verdict().outcome != "hung"


def test_one_answer_of_ras_proves_nothing() -> None:
    members = [
        RasRank(rank, "n1", 9 + rank, "running", 0, {"AllGather": 641 if rank == 1 else 640}) for rank in range(4)
    ]
    report = RasReport(1.0, "n1", "2.28", [RasCommunicator("0xa", 4, members, "RUNNING", "MISMATCH")], [], True, 0.1)
    job = after()
    job.ras.append(Look(1.0, report))
    verdict = job.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    job.ras.append(Look(2.0, report))
    job.ras.append(Look(3.0, report))
    assert [finding.kind for finding in job.verdict().findings] == ["collective_mismatch"]


def test_hardware_that_ended_a_run_is_a_crash() -> None:
    job = after().says("torch.cuda_error", 1, ago=9, error="uncorrectable ECC error encountered", signature="ecc")
    assert job.verdict().outcome == "crashed"


def begun(*ranks: int) -> Sketch:
    """A communicator of four that rank 1 has, and whose start others wrote of alone."""
    job = after()
    for rank in (1, *ranks):
        job.says("nccl.init", rank, ago=99, phase="start", comm_id="0xa", group_rank=rank, size=4)
    return job.says("nccl.init", 1, ago=98, phase="complete", comm_id="0xa", group_rank=1, size=4)


def test_who_has_a_communicator_did_begin_it() -> None:
    (found,) = begun(3).verdict().findings
    assert (found.kind, found.ranks) == ("init_hang", (0, 2))


def test_a_communicator_in_which_a_collective_timed_out_came_about() -> None:
    job = begun(3).says("torch.watchdog_timeout", 1, ago=9, op="BROADCAST", seq=1, ran_ms=600000, timeout_ms=600000)
    assert "init_hang" not in [found.kind for found in job.verdict().findings]


def test_who_named_no_node_is_told_how_others_are_watched() -> None:
    sketch = Sketch(world=0)
    sketch.people.clear()
    job = sketch.node("node1").job()
    assert "hangtop NODE" not in diagnose(job).summary
    said = diagnose(replace(job, unasked=True)).summary
    assert said.startswith("no rank runs on this machine (for others: hangtop NODE…, hangtop --slurm JOBID)")
